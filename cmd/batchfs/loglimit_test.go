package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLogLimit: repeated events are logged a few times and then summed up. Records that
// differ in more than numbers get their own lines.
func TestLogLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(limitLog(slog.NewTextHandler(&text, nil)))
		for i := range 30_000 {
			log.Warn("an open failed: out of memory", "batch", i, "reason", fmt.Sprintf("%d bytes", i))
		}
		for i := range 50 {
			log.Warn("bad", "path", fmt.Sprintf("%d.jpg", i), "reason", "truncated")
		}
		time.Sleep(limitWhile + 1)
		synctest.Wait()
		if n := strings.Count(text.String(), "out of memory"); n != limitBurst+1 {
			t.Errorf("%d lines of one kind", n)
		}
		if want := fmt.Sprintf("batch=29999 reason=\"29999 bytes\" times=%d\n", 30_000-limitBurst); !strings.Contains(text.String(), want) {
			t.Errorf("the sum is not logged:\n%s", text.String())
		}
		if n := strings.Count(text.String(), "msg=bad"); n != 50 {
			t.Errorf("%d of 50 bad files have a line", n)
		}
		text.Reset()
		for range 7 {
			log.Warn("an open failed: out of memory", "reason", "x")
		}
		time.Sleep(3 * limitWhile)
		synctest.Wait()
	})
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestLogFileReopened: after the file is renamed, lines go to a new one.
func TestLogFileReopened(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	c := &console{err: &bytes.Buffer{}}
	log, err := c.openLog(logOptions{file: name})
	testkit.Must(t, err)
	log.Info("before")
	for written := ""; !strings.Contains(written, "before"); {
		text, err := os.ReadFile(name)
		testkit.Must(t, err)
		written = string(text)
	}
	testkit.Must(t, os.Rename(name, name+".1"))
	log.reopen()
	log.Info("after")
	log.close()
	for file, want := range map[string]string{name: "msg=after", name + ".1": "msg=before"} {
		text, err := os.ReadFile(file)
		if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), want) {
			t.Errorf("%s holds %q (%v)", file, text, err)
		}
	}
}

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

// A stuckWriter blocks until released, like a pipe that nothing reads.
type stuckWriter struct {
	begun chan struct{} // receives one value per write
	goOn  chan struct{} // closed when writes may proceed
	text  bytes.Buffer
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	w.begun <- struct{}{}
	<-w.goOn
	return w.text.Write(p)
}

// TestLogNeverWaits: if writes block, logging neither blocks nor takes unbounded memory.
// The first line written afterwards says how many were lost.
func TestLogNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := &stuckWriter{begun: make(chan struct{}, 1<<20), goOn: make(chan struct{})}
		w := newLogWriter(stuck, func(n int64) []byte { return fmt.Appendf(nil, "%d lost\n", n) })
		line := []byte(strings.Repeat("x", 1<<10-1) + "\n")
		const lines = 3 * maxLogBytes >> 10
		for range lines {
			if n, err := w.Write(line); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
		}
		synctest.Wait()
		w.close() // it does not wait forever, either
		if held := len(w.lines); held > maxLogBytes>>10 {
			t.Errorf("%d lines wait", held)
		}
		close(stuck.goOn)
		<-w.idle
		text := stuck.text.String()
		got := strings.Count(text, "x\n")
		lost := 0
		for _, said := range regexp.MustCompile(`(\d+) lost\n`).FindAllStringSubmatch(text, -1) {
			n, _ := strconv.Atoi(said[1])
			lost += n
		}
		if lost != lines-got || got < maxLogBytes>>10-1 {
			t.Errorf("%d of %d lines got through; %d were lost", got, lines, lost)
		}
	})
}

// A brokenWriter fails its first few writes.
type brokenWriter struct {
	fails int
	text  bytes.Buffer
}

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.fails--; w.fails >= 0 {
		return 0, errors.New("broken pipe")
	}
	return w.text.Write(p)
}

func TestLogCountsWhatItCouldNotWrite(t *testing.T) {
	broken := &brokenWriter{fails: 2}
	w := newLogWriter(broken, func(n int64) []byte { return fmt.Appendf(nil, "%d lost\n", n) })
	for i := range 4 {
		fmt.Fprintf(w, "line %d\n", i)
	}
	w.close()
	if got := broken.text.String(); got != "2 lost\nline 2\nline 3\n" {
		t.Errorf("logged %q", got)
	}
}

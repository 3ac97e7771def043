package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

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

package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgressRate uses synctest's fake clock: no rate is shown in the first second or
// before anything is done.
func TestProgressRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &progress{out: &out, label: "drawing", unit: "images"}
		shows := func(done int64) string {
			out.Reset()
			p.report(done, 1000)
			return out.String()
		}
		for _, done := range []int64{0, 100, 200} {
			if got := shows(done); !strings.Contains(got, "/1000") || strings.Contains(got, "images/") || strings.Contains(got, ":") {
				t.Errorf("early: %q", got)
			}
			<-time.After(400 * time.Millisecond)
		}
		if got := shows(300); !strings.Contains(got, "images/s") {
			t.Errorf("after a second: %q", got)
		}
		p.close()
		if shows(0); p.rated {
			t.Error("a new bar has a rate at once")
		}
		<-time.After(time.Minute)
		if got := shows(0); strings.Contains(got, "images/") {
			t.Errorf("nothing was done: %q", got)
		}
		<-time.After(time.Minute)
		if got := shows(6); !strings.Contains(got, "images/min") {
			t.Errorf("6 in two minutes: %q", got)
		}
	})
}

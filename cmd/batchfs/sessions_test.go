package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/google/go-cmp/cmp"
)

// TestSessions: each file in testdata is a session of commands and their output, in a directory of
// its own, which the output calls DIR. Output is indented; the exit status follows, unless it is 0.
// Lines that are not batchfs commands are run by the shell, except image and mask, which make
// pictures of 3x5 pixels or a given size. -update records the output again.
func TestSessions(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatal(err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			name, err := filepath.Abs(name)
			testkit.Must(t, err)
			text, err := os.ReadFile(name)
			testkit.Must(t, err)
			now := session(t, string(text))
			if *update {
				testkit.Must(t, os.WriteFile(name, []byte(now), 0o644))
			} else if diff := cmp.Diff(string(text), now); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// varying are the parts of answers that differ from run to run, and between file systems.
var varying = regexp.MustCompile(`[0-9a-f]{32}|[^\s"]+/cache/batchfs[^\s"]*|needs [\d.]+ \S+|"(needed|free)_bytes":\d+|"seconds":[^,]+|"peak_bytes":\d+|planned in.*|tmp-\d+|\S+ \S+ are free`)

// session runs the commands of a text, and returns it with their output.
func session(t *testing.T, text string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	testkit.Must(t, err)
	t.Chdir(dir)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	var now strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "  ") { // output that was recorded before
			continue
		}
		now.WriteString(line)
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		var got outcome
		switch words := strings.Fields(strings.ReplaceAll(command, "DIR", dir)); words[0] {
		case "batchfs":
			for i, word := range words {
				words[i] = strings.ReplaceAll(word, "''", "")
			}
			got = batchfs(t, words[1:]...)
		case "image", "mask":
			height, width, sized := parseExtent(words[1])
			for _, path := range words[1:] {
				switch {
				case sized && path == words[1]:
				case words[0] == "mask":
					writeMask(t, path, max(height, 3), max(width, 5))
				default:
					writeImage(t, path, max(height, 3), max(width, 5))
				}
			}
		default:
			if out, err := exec.Command("sh", "-ec", command).CombinedOutput(); err != nil {
				t.Fatalf("%s%s", line, out)
			}
		}
		for answer := range strings.Lines(got.out + got.err) {
			now.WriteString("  " + varying.ReplaceAllString(strings.ReplaceAll(answer, dir, "DIR"), "..."))
		}
		if got.status != statusDone {
			fmt.Fprintf(&now, "  [%d]\n", got.status)
		}
	}
	return now.String()
}

func TestProgressIsQuietInAPipe(t *testing.T) {
	var out bytes.Buffer
	c := &console{err: &out}
	p := c.progress()
	report := p.reporter("indexing", "images")
	report(1, 2)
	report(2, 2)
	p.close()
	if out.Len() > 0 {
		t.Errorf("printed %q", out.String())
	}
	p = &progress{out: &out}
	report = p.reporter("indexing", "images")
	for i := range 10 {
		report(int64(i), int64(10+i)) // the total grows
	}
	p.close()
	p.close()
	if !strings.Contains(out.String(), "indexing") {
		t.Errorf("a terminal sees %q", out.String())
	}
}

func TestRates(t *testing.T) {
	var before, now fusefs.Stats
	before.Uptime, before.Storage.Bytes, before.Batches.StallSeconds = 10, 1000, 3
	now.Uptime, now.Storage.Bytes, now.Batches.StallSeconds, now.ImagesPerSecond, now.BytesPerSecond = 13, 5000, 4.5, 50, 7
	for _, test := range []struct {
		view statsView
		want []string
	}{
		{statsView{now: now, before: before}, []string{"50 images/s, 7 B/s", "50 % of the time now", "1.3 KiB/s"}},
		{statsView{now: now}, []string{"50 images/s, 7 B/s", "35 % of the time now", "384 B/s"}},
		{statsView{}, []string{"0 images/s, 0 B/s", "0 % of the time now", "0 B, 0 B/s"}},
	} {
		var out strings.Builder
		test.view.print(&out)
		for _, want := range test.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("does not print %q:\n%s", want, out.String())
			}
		}
	}
}

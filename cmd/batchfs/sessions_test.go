package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfs/batchfs/internal/testkit"
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

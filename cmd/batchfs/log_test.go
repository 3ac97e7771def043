package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

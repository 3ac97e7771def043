package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLogFileReopened: after the file is renamed, lines go to a new one.
func TestLogFileReopened(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	c := &console{err: &bytes.Buffer{}}
	log, err := c.openLog(logOptions{file: name})
	if err != nil {
		t.Fatal(err)
	}
	log.Info("before")
	for written := ""; !strings.Contains(written, "before"); {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		written = string(text)
	}
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
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

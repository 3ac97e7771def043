package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// TestSpawn: the word counts, and nothing else that a child does. One that ends without it has an
// error.
func TestSpawn(t *testing.T) {
	for script, want := range map[string]string{
		"echo live >&3":     "",
		"echo dead >&3":     "before its mount was live",
		"exit 0":            "before its mount was live",
		"exit 3":            "exit status 3",
		"kill -9 $$":        "killed",
		"exec 3>&-; exit 4": "exit status 4",
	} {
		err := startLive(t.Context(), exec.Command("sh", "-c", script))
		if (err == nil) != (want == "") || err != nil && (!errors.Is(err, errEarly) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", script, err)
		}
	}
}

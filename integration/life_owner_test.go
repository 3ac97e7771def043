package integration

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// TestOwnerEnds: when the program that owns a mount has ended, the mount ends as soon as nobody
// uses it, and takes its mountpoint along.
func TestOwnerEnds(t *testing.T) {
	skipWithoutFUSE(t)
	dataset := tiles(t, 8, 2)
	for name, used := range map[string]bool{"unused": false, "in use": true} {
		t.Run(name, func(t *testing.T) {
			dir := mountpoint(t)
			theirs, ours, err := os.Pipe()
			check(t, err)
			defer ours.Close()
			cmd := thisUser().daemon([]string{suite.binary, "mount", "--daemon", "--owner-fd=3", "--temporary-mountpoint", "--batch-size=4", dataset, dir})
			cmd.ExtraFiles = []*os.File{theirs}
			executeAs(t, cmd).done(t)
			theirs.Close()
			d := findDaemon(t, dir)
			held, err := os.Open(d.path(0, 0, 0, layout.NHWCForm))
			check(t, err)
			if !used {
				held.Close()
			}
			ours.Close()
			if used {
				d.readOneOf(t) // new opens, too
				held.Close()
			}
			d.gone(t)
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("its mountpoint: %v", err)
			}
		})
	}
}

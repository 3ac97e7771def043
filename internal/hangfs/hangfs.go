// Package hangfs is a file system for tests: a directory whose storage can fail, or stop answering,
// like that of a network file system. Calls that hang do so in the kernel.
package hangfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An FS is mounted at a directory while a test runs.
type FS struct {
	Dir string
	// Hung receives a value, if there is room, for each call that begins to hang.
	Hung chan struct{}

	wires *wires
	dead  bool
}

// Mount mounts files, by path, read-only. It skips the test if FUSE is unavailable.
func Mount(t testing.TB, dir string, files map[string][]byte) *FS {
	t.Helper()
	below, then := t.TempDir(), time.Unix(1_600_000_000, 0)
	for name, content := range files {
		path := filepath.Join(below, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err = errors.Join(err, os.WriteFile(path, content, 0o644), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	f := &FS{Dir: dir, Hung: make(chan struct{}, 1), wires: newWires()}
	f.wires.hung = f.Hung
	server, err := f.wires.mount(below, dir)
	if err != nil {
		t.Skipf("SKIPPED: cannot mount: %v", err)
	}
	t.Cleanup(func() {
		f.Release()
		for !f.dead && server.Unmount() != nil { // abandoned calls are still ending
			time.Sleep(10 * time.Millisecond)
		}
	})
	return f
}

// Die ends the file system as if its server had died: everything in it fails with ENOTCONN,
// and it stays mounted until Detach. Something in it must be open. Die needs root, and
// skips the test otherwise.
func (f *FS) Die(t testing.TB) {
	t.Helper()
	switch err := unix.Unmount(f.Dir, unix.MNT_FORCE); err { // MNT_FORCE cuts the connection first
	case unix.EBUSY:
		f.dead = true
	case unix.EPERM:
		t.Skip("SKIPPED: only root may cut the connection")
	default:
		t.Fatalf("unmounted by force, though it is in use: %v", err)
	}
}

// Detach unmounts the file system from its directory, even if it is in use.
func (f *FS) Detach(t testing.TB) {
	t.Helper()
	if err := unix.Unmount(f.Dir, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
}

// Hang makes calls hang from now on: "open", "read" or "list".
func (f *FS) Hang(what string) { f.wires.do("stall " + what) }

// Release lets all calls pass.
func (f *FS) Release() { f.wires.do("heal") }

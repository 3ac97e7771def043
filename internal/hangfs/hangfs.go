// Package hangfs is a file system for tests. Its storage can stop answering, like that of a
// network file system: calls then hang in the kernel until they are released.
package hangfs

import (
	"context"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// An FS is mounted at Dir while a test runs.
type FS struct {
	Dir string
	// Hung gets a value, if there is room, for each call that begins to hang.
	Hung chan struct{}

	mu   sync.Mutex
	gate chan struct{} // closed: calls pass
	what string        // the calls that hang: "open", "read" or "list"
	dead bool
}

// Die ends the file system as if its server had died: everything in it fails with ENOTCONN,
// and it stays mounted until Detach. Something in it must be open. Die needs root, and
// skips the test otherwise.
func (f *FS) Die(t testing.TB) {
	t.Helper()
	switch err := unix.Unmount(f.Dir, unix.MNT_FORCE); err { // it cuts the connection first
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

// Mount mounts files, by path, read-only. It skips the test if FUSE is unavailable.
func Mount(t testing.TB, files map[string][]byte) *FS {
	t.Helper()
	return MountAt(t, t.TempDir(), files)
}

// MountAt is Mount at a given directory.
func MountAt(t testing.TB, dir string, files map[string][]byte) *FS {
	t.Helper()
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skip("SKIPPED: no /dev/fuse here")
	} else {
		f.Close()
	}
	f := &FS{Dir: dir, Hung: make(chan struct{}, 1), gate: make(chan struct{})}
	close(f.gate)
	modified := time.Unix(1_600_000_000, 0)
	root := &node{fs: f, modified: modified}
	timeout := time.Duration(0)
	server, err := fs.Mount(f.Dir, root, &fs.Options{
		EntryTimeout: &timeout, AttrTimeout: &timeout,
		OnAdd: func(ctx context.Context) {
			for name, content := range files {
				dir := &root.Inode
				parts := strings.Split(path.Clean(name), "/")
				for _, part := range parts[:len(parts)-1] {
					child := dir.GetChild(part)
					if child == nil {
						child = dir.NewPersistentInode(ctx, &node{fs: f, modified: modified}, fs.StableAttr{Mode: fuse.S_IFDIR})
						dir.AddChild(part, child, true)
					}
					dir = child
				}
				file := &node{fs: f, content: content, modified: modified}
				dir.AddChild(parts[len(parts)-1], dir.NewPersistentInode(ctx, file, fs.StableAttr{Mode: fuse.S_IFREG}), true)
			}
		},
	})
	if err != nil {
		t.Skipf("SKIPPED: cannot mount: %v", err)
	}
	t.Cleanup(func() {
		f.Release()
		for !f.dead && server.Unmount() != nil { // calls left behind are still ending
			time.Sleep(10 * time.Millisecond)
		}
	})
	return f
}

// Hang makes calls hang from now on: "open", "read" or "list".
func (f *FS) Hang(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gate, f.what = make(chan struct{}), what
}

// Release lets all calls pass.
func (f *FS) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.gate:
	default:
		close(f.gate)
	}
}

func (f *FS) pass(what string) {
	f.mu.Lock()
	gate, hangs := f.gate, f.what == what
	f.mu.Unlock()
	if !hangs {
		return
	}
	select {
	case <-gate:
		return
	default:
	}
	select {
	case f.Hung <- struct{}{}:
	default:
	}
	<-gate
}

type node struct {
	fs.Inode
	fs       *FS
	content  []byte
	modified time.Time
}

func (n *node) Getattr(ctx context.Context, f fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Size, out.Mode = uint64(len(n.content)), 0o555
	out.SetTimes(nil, &n.modified, &n.modified)
	return 0
}

func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	child := n.GetChild(name)
	if child == nil {
		return nil, syscall.ENOENT
	}
	file := child.Operations().(*node)
	out.Size, out.Mode = uint64(len(file.content)), 0o555|child.Mode()
	out.SetTimes(nil, &file.modified, &file.modified)
	return child, 0
}

func (n *node) Opendir(ctx context.Context) syscall.Errno {
	n.fs.pass("list")
	return 0
}

func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	n.fs.pass("open")
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (n *node) Read(ctx context.Context, f fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n.fs.pass("read")
	if off >= int64(len(n.content)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(n.content[off:min(off+int64(len(dest)), int64(len(n.content)))]), 0
}

// Package hangfs is a file system for tests. Its storage can stop answering, like that of a
// network file system: calls then hang in the kernel until they are released.
package hangfs

import (
	"context"
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

// An FS is mounted at a directory while a test runs.
type FS struct {
	Dir string
	// Hung gets a value, if there is room, for each call that begins to hang.
	Hung chan struct{}

	mu   sync.Mutex
	what string        // the calls that hang: "open", "read" or "list"; none if empty
	gate chan struct{} // closed to release them
	dead bool
}

// Mount mounts files, by path, read-only. It skips the test if FUSE is unavailable.
func Mount(t testing.TB, dir string, files map[string][]byte) *FS {
	t.Helper()
	f := &FS{Dir: dir, Hung: make(chan struct{}, 1)}
	root, timeout := f.node(nil), time.Duration(0)
	server, err := fs.Mount(f.Dir, root, &fs.Options{
		EntryTimeout: &timeout, AttrTimeout: &timeout, MountOptions: fuse.MountOptions{Options: []string{"ro"}},
		OnAdd: func(ctx context.Context) {
			for name, content := range files {
				f.add(ctx, &root.Inode, path.Clean(name), content)
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

// add adds a file below dir, with the directories in between.
func (f *FS) add(ctx context.Context, dir *fs.Inode, name string, content []byte) {
	first, rest, deeper := strings.Cut(name, "/")
	mode := uint32(fuse.S_IFREG)
	if deeper {
		mode = fuse.S_IFDIR
	}
	child := dir.GetChild(first)
	if child == nil {
		child = dir.NewPersistentInode(ctx, f.node(content), fs.StableAttr{Mode: mode})
		dir.AddChild(first, child, true)
	}
	if deeper {
		f.add(ctx, child, rest, content)
	}
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

// Hang makes calls hang from now on: "open", "read" or "list".
func (f *FS) Hang(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.what, f.gate = what, make(chan struct{})
}

// Release lets all calls pass.
func (f *FS) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.what != "" {
		f.what = ""
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
	case f.Hung <- struct{}{}:
	default:
	}
	<-gate
}

// A node is a file or, without content, a directory.
type node struct {
	fs.MemRegularFile
	of *FS
}

var (
	_ fs.NodeOpendirer = (*node)(nil)
	_ fs.NodeOpener    = (*node)(nil)
	_ fs.NodeReader    = (*node)(nil)
)

func (f *FS) node(content []byte) *node {
	n := &node{of: f}
	n.Data, n.Attr.Mode, n.Attr.Mtime = content, 0o555, 1_600_000_000
	return n
}

func (n *node) Opendir(context.Context) syscall.Errno {
	n.of.pass("list")
	return 0
}

func (n *node) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	n.of.pass("open")
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (n *node) Read(ctx context.Context, f fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n.of.pass("read")
	return n.MemRegularFile.Read(ctx, f, dest, off)
}

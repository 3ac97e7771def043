package fusefs

import (
	"log/slog"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// A registrar makes a file known to the kernel as what backs an inode.
// *fuse.Server is one.
type registrar interface {
	RegisterBackingFd(*fuse.BackingMap) (int32, syscall.Errno)
	UnregisterBackingFd(int32) syscall.Errno
}

// An openFile is a large file while anybody has it open. All who do share it: the
// kernel wants one backing id for all opens of an inode, and one way of reading.
type openFile struct {
	id      uint64
	file    file  // closed when refs becomes 0
	backing int32 // the kernel's name for it; 0: it reads from the daemon
	refs    int   // guarded by openFiles.mu
}

// openFiles are the large files that are open, by node id. The mutex is held
// while a file is registered, which asks nothing of anybody, and never while a
// batch is made.
type openFiles struct {
	kernel registrar // nil: all files are read through the daemon
	log    *slog.Logger

	mu     sync.Mutex
	byNode map[uint64]*openFile
	failed int64 // registrations that the kernel refused
}

// add takes over a file that was just opened and returns a share in it. Where the
// inode is open already, the share is in what the others have, and this file, which
// holds the same bytes, is closed. (The engine is asked for every open all the
// same: it follows readers by what they open.)
func (t *openFiles) add(id uint64, opened file) *openFile {
	f := t.share(id, opened)
	if f.file != opened {
		opened.Close()
	}
	return f
}

func (t *openFiles) share(id uint64, opened file) *openFile {
	t.mu.Lock()
	defer t.mu.Unlock() // also where something panics, which costs one request only
	f := t.byNode[id]
	if f == nil {
		f = &openFile{id: id, file: opened, backing: t.register(opened)}
		if t.byNode == nil {
			t.byNode = map[uint64]*openFile{}
		}
		t.byNode[id] = f
	}
	f.refs++
	return f
}

// register asks the kernel to serve a file by itself. When it refuses, the file is
// read through the daemon: the same bytes, more slowly. That cannot clash with
// another open of the inode, because there is none: every later one shares this
// file and how it is read.
func (t *openFiles) register(opened file) (backing int32) {
	if t.kernel == nil || opened.Fd() < 0 {
		return 0
	}
	id, errno := t.kernel.RegisterBackingFd(&fuse.BackingMap{Fd: int32(opened.Fd())})
	if errno == 0 {
		return id
	}
	t.failed++
	if t.failed == 1 {
		t.log.Warn("the kernel refused a batch for passthrough; it is read through the daemon (further ones are only counted)", "error", errno)
	}
	return 0
}

// release gives a share back; the last one closes the file. The kernel lets go of
// an inode's backing before it tells of the release, so the next open of this
// inode may register another.
func (t *openFiles) release(f *openFile) {
	t.mu.Lock()
	f.refs--
	last := f.refs == 0
	if last {
		delete(t.byNode, f.id)
		if f.backing != 0 {
			// It fails only when the connection is gone, and the id with it.
			_ = t.kernel.UnregisterBackingFd(f.backing)
		}
	}
	t.mu.Unlock()
	if last {
		f.file.Close()
	}
}

// refused counts the files that the kernel would not serve.
func (t *openFiles) refused() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

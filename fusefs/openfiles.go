package fusefs

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// A registrar registers files with the kernel as backing files of inodes. *fuse.Server is
// one.
type registrar interface {
	RegisterBackingFd(*fuse.BackingMap) (int32, syscall.Errno)
	UnregisterBackingFd(int32) syscall.Errno
}

// An openFile is a large file while it is open, shared by all its opens: the kernel
// requires one backing id and one way of reading for all opens of an inode.
type openFile struct {
	id      uint64
	file    file  // closed when refs becomes 0
	backing int32 // the kernel's id for it; 0: the daemon serves the reads
	refs    int   // guarded by openFiles.mu
}

// openFiles are the open large files, by node id. The mutex is held while a file is
// registered, which does not wait, and never while a batch is made.
type openFiles struct {
	kernel registrar // nil: the daemon serves all files
	log    *slog.Logger

	refused atomic.Int64 // registrations refused by the kernel

	mu     sync.Mutex
	byNode map[uint64]*openFile
}

// add takes ownership of a newly opened file and returns a share. If the inode is already
// open, the share is in the existing file, and the new one, which holds the same bytes, is
// closed. (The engine still has to see every open, because it follows readers by their
// opens.)
func (t *openFiles) add(id uint64, opened file) *openFile {
	f := t.share(id, opened)
	if f.file != opened {
		opened.Close()
	}
	return f
}

func (t *openFiles) share(id uint64, opened file) *openFile {
	t.mu.Lock()
	defer t.mu.Unlock() // even after a panic, which costs one request only
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

// register asks the kernel to serve a file itself. If it refuses, the file is read through
// the daemon: the same bytes, more slowly. This cannot conflict with another open of the
// inode: there is none yet, and later ones share this file and its mode.
func (t *openFiles) register(opened file) (backing int32) {
	if t.kernel == nil || opened.Fd() < 0 {
		return 0
	}
	id, errno := t.kernel.RegisterBackingFd(&fuse.BackingMap{Fd: int32(opened.Fd())})
	if errno == 0 {
		return id
	}
	if t.refused.Add(1) == 1 {
		t.log.Warn("the kernel refused a batch for passthrough; it is read through the daemon (more are only counted)", "error", errno)
	}
	return 0
}

// release gives back a share; the last one closes the file. The kernel drops an inode's
// backing before it sends the release, so the next open of the inode may register another.
func (t *openFiles) release(f *openFile) {
	t.mu.Lock()
	f.refs--
	last := f.refs == 0
	if last {
		delete(t.byNode, f.id)
		if f.backing != 0 {
			// It fails only if the connection is gone, and the id with it.
			_ = t.kernel.UnregisterBackingFd(f.backing)
		}
	}
	t.mu.Unlock()
	if last {
		f.file.Close()
	}
}

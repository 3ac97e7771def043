package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/batchfs/batchfs/internal/throughput"
)

// This file measures a file system of which every other read is slow, as that of a network may be.

const slowRead = 20 * time.Millisecond

// coldSlow compares epochs from a file system where half of the reads are slow with those from
// the same one without any delay.
func coldSlow(ctx context.Context, s *setup) (rows []row, err error) {
	var sides []side
	for _, delay := range []time.Duration{slowRead, 0} {
		dir, end, err := slowly(s.photos.Root(), s.work, delay)
		if err != nil {
			return nil, err
		}
		defer end()
		t, err := s.train(ctx, dir, cold(shuffled(64, trainingCrop...)...), throughput.Mapped)
		if err != nil {
			return nil, err
		}
		defer t.Mount.Unmount(ctx)
		sides = append(sides, t.Epoch)
	}
	what := fmt.Sprintf("every other read takes %v / none does", slowRead)
	rates, err := s.turns(ctx, what, s.rounds, sides...)
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%.0f and %.0f images/s", median(rates[0]), median(rates[1]))
	return []row{measured(what, "x", ratios(rates[0], rates[1]), note).atLeast(0.95)}, nil
}

// slowly shows a folder in another one, in work, where every other read is delayed.
func slowly(root, work string, delay time.Duration) (dir string, end func(), err error) {
	if dir, err = os.MkdirTemp(work, "slow-"); err != nil {
		return "", nil, err
	}
	shown, err := fs.NewLoopbackRoot(root)
	if err != nil {
		return "", nil, err
	}
	reads := &slowReads{delay: delay}
	shown.(*fs.LoopbackNode).RootData.NewNode = func(r *fs.LoopbackRoot, _ *fs.Inode, _ string, _ *syscall.Stat_t) fs.InodeEmbedder {
		return &slowNode{fs.LoopbackNode{RootData: r}, reads}
	}
	server, err := fs.Mount(dir, shown, &fs.Options{MountOptions: fuse.MountOptions{Options: []string{"ro"}, MaxBackground: 256}})
	if err != nil {
		return "", nil, errors.Join(err, os.Remove(dir))
	}
	return dir, func() {
		_ = server.Unmount() // the mount of batchfs has ended, or its error is the one to report
		_ = os.Remove(dir)
	}, nil
}

// slowReads delays every other read.
type slowReads struct {
	delay time.Duration
	n     atomic.Int64
}

type slowNode struct {
	fs.LoopbackNode
	reads *slowReads
}

// Open opens the file that is shown.
func (n *slowNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	file, flags, errno := n.LoopbackNode.Open(ctx, flags)
	if errno != 0 {
		return nil, 0, errno
	}
	return &slowFile{file, n.reads}, flags, 0
}

type slowFile struct {
	fs.FileHandle
	reads *slowReads
}

// Read reads from the file that is shown.
func (f *slowFile) Read(ctx context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if f.reads.n.Add(1)%2 == 0 {
		time.Sleep(f.reads.delay)
	}
	return f.FileHandle.(fs.FileReader).Read(ctx, dest, off)
}

// Release closes the file that is shown.
func (f *slowFile) Release(ctx context.Context) syscall.Errno {
	return f.FileHandle.(fs.FileReleaser).Release(ctx)
}

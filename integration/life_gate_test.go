package integration

import (
	"context"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A gate is a dataset of tiles on a file system served by this process. It can make opens
// of a tile wait, so that a test controls how long a batch takes.
type gate struct {
	dir string

	mu   sync.Mutex
	shut map[int]chan struct{} // closed when the gate opens
}

// gatedTiles makes an open gate. A test that closes it must open it again with defer.
func gatedTiles(t testing.TB, n, side int) *gate {
	t.Helper()
	skipWithoutFUSE(t)
	g := &gate{dir: filepath.Join(scratch(t), "gated"), shut: map[int]chan struct{}{}}
	writeFile(t, filepath.Join(g.dir, "keep"), nil)
	root := &gateDir{gate: g, tiles: n, side: side}
	server, err := fs.Mount(g.dir, root, &fs.Options{MountOptions: fuse.MountOptions{DirectMount: true, FsName: "gate", Name: "gate"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Errorf("the dataset is still in use: %v", err)
			_ = unix.Unmount(g.dir, unix.MNT_DETACH)
		}
	})
	return g
}

// close makes opens of these tiles wait until open.
func (g *gate) close(ids ...int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range ids {
		g.shut[id] = make(chan struct{})
	}
}

// open lets all opens proceed.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.shut {
		close(c)
	}
	clear(g.shut)
}

// pass waits at the gate of a tile.
func (g *gate) pass(ctx context.Context, id int) error {
	g.mu.Lock()
	c := g.shut[id]
	g.mu.Unlock()
	if c == nil {
		return nil
	}
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type gateDir struct {
	fs.Inode
	gate        *gate
	tiles, side int
}

func (d *gateDir) OnAdd(ctx context.Context) {
	for id := range d.tiles {
		f := &gatedTile{gate: d.gate, id: id}
		f.Data = tileFile(id, d.side)
		f.Attr.Mtime = 1_600_000_000
		d.AddChild(tileName(id), d.NewPersistentInode(ctx, f, fs.StableAttr{Mode: fuse.S_IFREG}), false)
	}
}

type gatedTile struct {
	fs.MemRegularFile
	gate *gate
	id   int
}

func (f *gatedTile) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if err := f.gate.pass(ctx, f.id); err != nil {
		return nil, 0, syscall.EINTR
	}
	return f.MemRegularFile.Open(ctx, flags)
}

var _ fs.NodeOpener = (*gatedTile)(nil)

package owned

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

// late is a directory whose file system has no room, and says so when a file is closed, as NFS
// does.
type late struct{ *fs.LoopbackNode }

func (n *late) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &late{child.(*fs.LoopbackNode)}
}

func (n *late) Create(
	ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut,
) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	node, f, flags, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	return node, lateFile{f.(writtenFile)}, flags, errno
}

type writtenFile interface {
	fs.FileWriter
	fs.FileReleaser
}

type lateFile struct{ writtenFile }

func (lateFile) Flush(context.Context) syscall.Errno { return unix.EDQUOT }

// TestRefusedAtClose: a file that turns out incomplete when it is closed replaces none.
func TestRefusedAtClose(t *testing.T) {
	below, at := t.TempDir(), t.TempDir()
	root, err := fs.NewLoopbackRoot(below)
	testkit.Must(t, err)
	server, err := fs.Mount(at, &late{root.(*fs.LoopbackNode)}, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMount: true},
	})
	if err != nil {
		t.Skipf("SKIPPED: cannot mount: %v", err)
	}
	defer server.Unmount()
	path := filepath.Join(at, "file")
	testkit.Must(t, os.WriteFile(filepath.Join(below, "file"), []byte("old"), 0o600))
	err = Replace(path, writes("new"))
	if text, _ := os.ReadFile(filepath.Join(below, "file")); !errors.Is(err, unix.EDQUOT) || string(text) != "old" {
		t.Errorf("%q, %v", text, err)
	}
	if names, _ := os.ReadDir(below); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

// TestLeftoversGo: what a killed writer left is removed, and nothing else, whatever the name of the
// directory.
func TestLeftoversGo(t *testing.T) {
	all := t.TempDir()
	for _, name := range []string{"[ab]", "a"} {
		dir := filepath.Join(all, name)
		testkit.Must(t, os.Mkdir(dir, 0o700))
		for file, age := range map[string]time.Duration{
			"file.tmp-1": 2 * tempLife, "file.tmp-2": 0, "other.tmp-1": 2 * tempLife,
		} {
			path, then := filepath.Join(dir, file), time.Now().Add(-age)
			testkit.Must(t, os.WriteFile(path, nil, 0o600))
			testkit.Must(t, os.Chtimes(path, then, then))
		}
	}
	testkit.Must(t, Replace(filepath.Join(all, "[ab]", "file"), writes("1")))
	for name, want := range map[string]int{"[ab]": 3, "a": 3} {
		if names, _ := os.ReadDir(filepath.Join(all, name)); len(names) != want {
			t.Errorf("%s: %v", name, names)
		}
	}
}

package integration

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

func init() { parts["part-faulty"] = partFaulty }

// partFaulty serves the files of a directory at a mountpoint: DIR MOUNTPOINT. Lines on its
// input make reads of a file fail ("fail NAME"), return less than requested ("short NAME
// BYTES"), find the end too early ("end NAME BYTES"), or wait ("stall NAME"). "heal" ends
// all that, and "waiting" asks for the number of waiting reads. It answers each line, and
// exits when its input ends.
func partFaulty(args []string) error {
	f := &faulty{dir: args[0], faults: map[string]fault{}}
	server, err := fs.Mount(args[1], &faultyDir{faulty: f}, &fs.Options{MountOptions: fuse.MountOptions{DirectMount: true, FsName: "faulty", Name: "faulty"}})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer, err := f.do(strings.Fields(lines.Text()))
		if err != nil {
			answer = err.Error()
		}
		fmt.Println(answer)
	}
	f.heal()
	return server.Unmount()
}

// A fault is what is wrong with a file.
type fault struct {
	errno syscall.Errno // of every read
	most  int           // most bytes a read returns; 0: no limit
	end   int64         // where reads find the end; 0: at the real end
	stall chan struct{} // closed when reads may continue; nil: no stall
}

type faulty struct {
	dir string

	mu      sync.Mutex
	faults  map[string]fault
	waiting int
}

// do executes a line and returns the answer.
func (f *faulty) do(words []string) (answer string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := int64(0)
	if len(words) > 2 {
		if n, err = strconv.ParseInt(words[2], 10, 64); err != nil {
			return "", err
		}
	}
	switch words[0] {
	case "fail":
		f.faults[words[1]] = fault{errno: syscall.EIO}
	case "short":
		f.faults[words[1]] = fault{most: int(n)}
	case "end":
		f.faults[words[1]] = fault{end: n}
	case "stall":
		f.faults[words[1]] = fault{stall: make(chan struct{})}
	case "waiting":
		return strconv.Itoa(f.waiting), nil
	case "heal":
		f.release()
	default:
		return "", fmt.Errorf("what is %s?", words[0])
	}
	return "done", nil
}

func (f *faulty) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release()
}

// release ends all faults. f.mu is held.
func (f *faulty) release() {
	for _, fault := range f.faults {
		if fault.stall != nil {
			close(fault.stall)
		}
	}
	clear(f.faults)
}

// pass waits while a file stalls and returns its other faults.
func (f *faulty) pass(ctx context.Context, name string) (fault, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.faults[name]
	if now.stall == nil {
		return now, nil
	}
	f.waiting++
	f.mu.Unlock()
	var err error
	select {
	case <-now.stall:
	case <-ctx.Done(): // the reader received a signal; it will retry or end
		err = ctx.Err()
	}
	f.mu.Lock()
	f.waiting--
	return f.faults[name], err
}

type faultyDir struct {
	fs.Inode
	faulty *faulty
}

func (d *faultyDir) OnAdd(ctx context.Context) {
	entries, err := os.ReadDir(d.faulty.dir)
	if err != nil {
		fmt.Println(err) // takes the place of "ready"
	}
	for _, e := range entries {
		f := &faultyFile{faulty: d.faulty, name: e.Name()}
		d.AddChild(e.Name(), d.NewPersistentInode(ctx, f, fs.StableAttr{Mode: fuse.S_IFREG}), false)
	}
}

type faultyFile struct {
	fs.Inode
	faulty *faulty
	name   string
}

func (f *faultyFile) path() string { return filepath.Join(f.faulty.dir, f.name) }

func (f *faultyFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	var st syscall.Stat_t
	if err := syscall.Stat(f.path(), &st); err != nil {
		return fs.ToErrno(err)
	}
	out.FromStat(&st)
	return 0
}

// Open bypasses the page cache, so that every read arrives here.
func (f *faultyFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (f *faultyFile) Read(ctx context.Context, _ fs.FileHandle, dest []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	fault, err := f.faulty.pass(ctx, f.name)
	if err != nil {
		return nil, syscall.EINTR
	}
	if fault.errno != 0 {
		return nil, fault.errno
	}
	data, err := os.ReadFile(f.path())
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	if fault.end > 0 {
		data = data[:min(int64(len(data)), fault.end)]
	}
	data = data[min(int64(len(data)), offset):]
	if fault.most > 0 {
		data = data[:min(len(data), fault.most)]
	}
	return fuse.ReadResultData(data[:min(len(data), len(dest))]), 0
}

var (
	_ fs.NodeGetattrer = (*faultyFile)(nil)
	_ fs.NodeOpener    = (*faultyFile)(nil)
	_ fs.NodeReader    = (*faultyFile)(nil)
)

// A storage is a dataset of tiles on a file system served by another process, which the
// test controls.
type storage struct {
	*partner
	dir string
}

const (
	storageSide  = 64 // a file is a little more than three pages
	storageTiles = 16
)

func newStorage(t testing.TB) storage {
	t.Helper()
	skipWithoutFUSE(t)
	root(t) // the part mounts without help
	s := storage{dir: filepath.Join(scratch(t), "faulty")}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := testkit.MountsBelow(s.dir); err != nil || len(left) > 0 {
			t.Errorf("the dataset is still in use: %v %v", left, err)
			_ = unix.Unmount(s.dir, unix.MNT_DETACH)
		}
	})
	s.partner = startPartner(t, thisUser().daemon([]string{suite.self, "part-faulty", tiles(t, storageTiles, storageSide), s.dir}))
	s.expect(t, "ready")
	return s
}

// order sends the storage a command.
func (s storage) order(t testing.TB, line string) {
	t.Helper()
	s.tell(t, line)
	s.expect(t, "done")
}

// stall makes reads of tiles wait until the storage is healed, which a test must defer.
func (s storage) stall(t testing.TB, ids ...int) {
	t.Helper()
	for _, id := range ids {
		s.order(t, "stall "+tileName(id))
	}
}

// awaitStalled waits until n reads wait for the storage.
func (s storage) awaitStalled(t testing.TB, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d reads stall", n), func() bool {
		s.tell(t, "waiting")
		return s.line(t) == strconv.Itoa(n)
	})
}

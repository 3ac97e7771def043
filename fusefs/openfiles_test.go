package fusefs

import (
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// fakeKernel registers backing files and checks the kernel's rule that an inode has one
// backing at a time.
type fakeKernel struct {
	mu     sync.Mutex
	last   int32
	live   map[int32]bool
	refuse syscall.Errno
	bad    int // ids given back without being held
}

func (k *fakeKernel) RegisterBackingFd(*fuse.BackingMap) (int32, syscall.Errno) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refuse != 0 {
		return 0, k.refuse
	}
	if k.live == nil {
		k.live = map[int32]bool{}
	}
	k.last++
	k.live[k.last] = true
	return k.last, 0
}

func (k *fakeKernel) UnregisterBackingFd(id int32) syscall.Errno {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.live[id] {
		k.bad++
		return unix.ENOENT
	}
	delete(k.live, id)
	return 0
}

func withKernel(t *testing.T, src *fakeSource, k *fakeKernel) *filesystem {
	f := fakeFilesystem(t, src, passthrough)
	f.files.kernel = k
	f.options.Logger = slog.New(slog.DiscardHandler)
	return f
}

// TestOpensShareBacking: concurrent opens of one inode get one backing id. An open after
// the last release may get another.
func TestOpensShareBacking(t *testing.T) {
	src, k := newFake(), &fakeKernel{}
	f := withKernel(t, src, k)
	id := findPath(t, f, "shard-0/epoch-0/batch-00000.nhwc").NodeId
	other := findPath(t, f, "shard-0/epoch-0/batch-00000.npy").NodeId
	a, _ := openNode(f, id, 0)
	b, _ := openNode(f, id, 0)
	c, _ := openNode(f, other, 0)
	if a.OpenFlags != fuse.FOPEN_PASSTHROUGH|fuse.FOPEN_NOFLUSH || a.BackingID == 0 {
		t.Fatalf("flags %#x, backing %d", a.OpenFlags, a.BackingID)
	}
	if b.BackingID != a.BackingID || b.Fh == a.Fh {
		t.Errorf("two opens: backings %d and %d, handles %d and %d", a.BackingID, b.BackingID, a.Fh, b.Fh)
	}
	if c.BackingID == a.BackingID {
		t.Error("two inodes share a backing")
	}
	if _, live, _ := src.counts(); live != 2 {
		t.Errorf("%d files are open for two inodes", live)
	}
	f.closeAll(a.Fh)
	if !k.live[a.BackingID] {
		t.Error("the backing went while an open was left")
	}
	f.closeAll(b.Fh, c.Fh)
	if len(k.live) != 0 || k.bad != 0 {
		t.Errorf("%d backings are left, %d were given back twice", len(k.live), k.bad)
	}
	if d, _ := openNode(f, id, 0); d.BackingID == 0 || d.BackingID == a.BackingID {
		t.Errorf("a later open: backing %d, before %d", d.BackingID, a.BackingID)
	}
}

// TestRegistrationRefused: a file that the kernel refuses is read through the daemon by all
// of its concurrent opens, even if the kernel would accept it later.
func TestRegistrationRefused(t *testing.T) {
	src, k := newFake(), &fakeKernel{refuse: unix.ENOMEM}
	f := withKernel(t, src, k)
	id := findPath(t, f, "shard-0/epoch-0/batch-00000.nhwc").NodeId
	a, st := openNode(f, id, 0)
	if !st.Ok() || a.OpenFlags != fuse.FOPEN_DIRECT_IO|fuse.FOPEN_NOFLUSH {
		t.Fatalf("refused: %v, flags %#x", st, a.OpenFlags)
	}
	k.refuse = 0
	b, _ := openNode(f, id, 0)
	if b.OpenFlags != a.OpenFlags || b.BackingID != 0 {
		t.Errorf("opens of one inode differ: flags %#x and %#x", a.OpenFlags, b.OpenFlags)
	}
	if got := f.files.refused.Load(); got != 1 {
		t.Errorf("%d refusals are counted", got)
	}
	f.closeAll(a.Fh, b.Fh)
	if c, _ := openNode(f, id, 0); c.BackingID == 0 {
		t.Error("passthrough is off for ever after one refusal")
	}
}

// TestAnonymousFiles: files without a descriptor are never registered with the kernel.
func TestAnonymousFiles(t *testing.T) {
	src, k := newFake(), &fakeKernel{}
	src.anonymous = true
	f := withKernel(t, src, k)
	a, _ := openNode(f, findPath(t, f, "shard-0/epoch-0/batch-00000.nhwc").NodeId, 0)
	if a.OpenFlags&fuse.FOPEN_DIRECT_IO == 0 || k.last != 0 || f.files.refused.Load() != 0 {
		t.Errorf("flags %#x, %d registrations, %d refused", a.OpenFlags, k.last, f.files.refused.Load())
	}
}

// TestOpensRace opens and closes a few inodes from many goroutines. At any moment all opens
// of an inode have one backing, and nothing is left at the end.
func TestOpensRace(t *testing.T) {
	src, k := newFake(), &fakeKernel{}
	f := withKernel(t, src, k)
	var ids []uint64
	for _, form := range []string{"nhwc", "npy", "png"} {
		ids = append(ids, findPath(t, f, "shard-0/epoch-0/batch-00000."+form).NodeId)
	}
	var mu sync.Mutex
	held := map[uint64]map[int32]int{} // by inode: backings and the number of opens that have them
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Go(func() {
			for i := range 200 {
				id := ids[(g+i)%len(ids)]
				out, st := openNode(f, id, 0)
				if !st.Ok() {
					t.Errorf("open: %v", st)
					return
				}
				mu.Lock()
				if held[id] == nil {
					held[id] = map[int32]int{}
				}
				held[id][out.BackingID]++
				if len(held[id]) != 1 {
					t.Errorf("inode %d is open with backings %v", id, held[id])
				}
				mu.Unlock()
				if result, st := f.Read(nil, &fuse.ReadIn{Fh: out.Fh, Size: 10}, nil); !st.Ok() || result.Size() != 10 {
					t.Errorf("read: %v, %d bytes", st, result.Size())
				}
				mu.Lock()
				if held[id][out.BackingID]--; held[id][out.BackingID] == 0 {
					delete(held[id], out.BackingID)
				}
				f.closeAll(out.Fh) // under the lock, so that the model and the table change together
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if opened, live, twice := src.counts(); opened != 1600 || live != 0 || twice {
		t.Errorf("%d opens, %d files left; closed twice: %v", opened, live, twice)
	}
	if len(k.live) != 0 || k.bad != 0 || len(f.files.byNode) != 0 || f.openHandles() != 0 {
		t.Errorf("left: %d backings, %d bad, %d files, %d handles", len(k.live), k.bad, len(f.files.byNode), f.openHandles())
	}
}

// TestLeases: each open of a batch on the GPU has its own file, past the page cache, and closes it
// once.
func TestLeases(t *testing.T) {
	src := newFake()
	src.gpu = true
	f := fakeFilesystem(t, src, passthrough)
	entry := findPath(t, f, "shard-0/epoch-0/batch-00000.cuda")
	if entry.Size != 4096 {
		t.Errorf("stat says %d bytes", entry.Size)
	}
	var opened [3]fuse.OpenOut
	for i := range opened {
		in := &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: entry.NodeId, Caller: fuse.Caller{Pid: uint32(unix.Gettid())}}}
		if st := f.Open(nil, in, &opened[i]); !st.Ok() {
			t.Fatal(st)
		}
		if flags := opened[i].OpenFlags; flags&fuse.FOPEN_DIRECT_IO == 0 || flags&fuse.FOPEN_PASSTHROUGH != 0 {
			t.Errorf("open flags %#x", flags)
		}
	}
	for i, o := range opened {
		if _, live, _ := src.counts(); live != len(opened)-i {
			t.Errorf("%d files are open, of %d", live, len(opened)-i)
		}
		f.Release(nil, &fuse.ReleaseIn{Fh: o.Fh})
	}
	if _, live, twice := src.counts(); live != 0 || twice {
		t.Errorf("%d files are left open; one was closed twice: %v", live, twice)
	}
}

// TestLeaseOfADyingProcess: a file that a process without memory releases is kept until the process
// has ended.
func TestLeaseOfADyingProcess(t *testing.T) {
	cmd := exec.Command("true")
	testkit.Must(t, cmd.Start())
	defer cmd.Wait()
	testkit.Must(t, unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	var end [2]int // this stands for its pidfd, which is readable by now
	testkit.Must(t, unix.Pipe2(end[:], unix.O_CLOEXEC))
	closed := make(chan struct{})
	(&opener{cmd.Process.Pid, end[0]}).outlived(func() { close(closed) })
	select {
	case <-closed:
		t.Error("it was closed while the process lived")
	default:
	}
	unix.Close(end[1])
	<-closed
}

func TestOpeners(t *testing.T) {
	for _, c := range []struct {
		thread uint32
		pid    int
		dying  bool
	}{
		{uint32(unix.Gettid()), os.Getpid(), false}, {uint32(os.Getppid()), os.Getppid(), false}, {0, 0, true},
	} {
		o, err := openerOf(c.thread)
		testkit.Must(t, err)
		if o.pid != c.pid || (o.pidfd >= 0) != (c.pid != 0) || dying(o.pid) != c.dying {
			t.Errorf("thread %d: %+v, dying %v", c.thread, o, dying(o.pid))
		}
		called := false
		o.outlived(func() { called = true })
		if !called {
			t.Errorf("thread %d: closed later", c.thread)
		}
	}
}

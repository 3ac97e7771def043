package fusefs

import (
	"os"
	"os/exec"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

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

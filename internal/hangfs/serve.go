package hangfs

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Serve shows a directory at a mountpoint, as args say, in a process of its own, because a process
// that reads its own mount can deadlock. It says "ready", and then answers each line of its input.
// A line orders a fault of the file with a name, or of all files (*), until the next "heal":
//
//	fail NAME ERRNO PERCENT   so many of its reads fail; of all files, opens do, too
//	short NAME BYTES          reads return no more at a time
//	end NAME BYTES            reads find the end there
//	stall NAME                reads wait; of all files, opens do, too
//	heal                      ends all that
//	waiting                   asks for the number of calls that wait
//
// It unmounts when its input ends.
func Serve(args []string, in io.Reader, out io.Writer) error {
	w := newWires()
	server, err := w.mount(args[0], args[1])
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		fmt.Fprintln(out, w.do(lines.Text()))
	}
	w.do("heal")
	return server.Unmount()
}

// A fault is how a file misbehaves.
type fault struct {
	errno   syscall.Errno // for so many of a hundred calls
	percent int
	most    int           // most bytes that a read returns; 0: no limit
	end     int64         // where reads find the end; 0: at the real end
	stall   chan struct{} // closed when calls may go on; nil: they need not wait
}

// wires inject faults into the files.
type wires struct {
	hung chan<- struct{} // told of each call that begins to stall, if there is room; nil: nothing is told

	mu      sync.Mutex
	faults  map[string]fault // by the name of the file, or of calls: "open", "read", "list"
	random  *rand.Rand
	waiting int
}

const everyFile = "*"

func newWires() *wires {
	return &wires{faults: map[string]fault{}, random: rand.New(rand.NewPCG(1, 1))}
}

// mount shows a directory at a mountpoint.
func (w *wires) mount(dir, at string) (*fuse.Server, error) {
	root, err := fs.NewLoopbackRoot(dir)
	if err != nil {
		return nil, err
	}
	return fs.Mount(at, &wire{root.(*fs.LoopbackNode), w}, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMount: true, FsName: "faulty", Name: "faulty", Options: []string{"ro"}},
	})
}

// do executes a line and returns the answer.
func (w *wires) do(line string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var order, name string
	var n, percent int
	_, err := fmt.Sscan(line, &order, &name, &n, &percent)
	switch order { // other orders have fewer words
	case "fail":
		if err != nil {
			return err.Error()
		}
		w.faults[name] = fault{errno: syscall.Errno(n), percent: percent}
	case "short":
		w.faults[name] = fault{most: n}
	case "end":
		w.faults[name] = fault{end: int64(n)}
	case "stall":
		w.faults[name] = fault{stall: make(chan struct{})}
	case "waiting":
		return strconv.Itoa(w.waiting)
	case "heal":
		for _, fault := range w.faults {
			if fault.stall != nil {
				close(fault.stall)
			}
		}
		clear(w.faults)
	default:
		return "what is " + line + "?"
	}
	return "done"
}

// pass waits while a call stalls, and returns its other faults: those of the first name with any.
func (w *wires) pass(ctx context.Context, names ...string) (now fault, errno syscall.Errno) {
	w.mu.Lock()
	defer w.mu.Unlock()
	find := func() (f fault) {
		for _, name := range names {
			f = cmp.Or(f, w.faults[name])
		}
		return f
	}
	now = find()
	if now.stall != nil {
		w.waiting++
		w.mu.Unlock()
		select {
		case w.hung <- struct{}{}:
		default:
		}
		select {
		case <-now.stall:
		case <-ctx.Done(): // the reader received a signal; it will retry or end
			errno = syscall.EINTR
		}
		w.mu.Lock()
		w.waiting--
		now = find()
	}
	if errno == 0 && w.random.IntN(100) < now.percent {
		errno = now.errno
	}
	return now, errno
}

// A wire is a file or directory.
type wire struct {
	*fs.LoopbackNode
	wires *wires
}

// WrapChild implements [fs.NodeWrapChilder].
func (n *wire) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &wire{child.(*fs.LoopbackNode), n.wires}
}

// Open bypasses the page cache, so that every read arrives here.
func (n *wire) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if _, errno := n.wires.pass(ctx, "open", everyFile); errno != 0 {
		return nil, 0, errno
	}
	h, _, errno := n.LoopbackNode.Open(ctx, flags&^syscall.O_DIRECT)
	if errno != 0 {
		return nil, 0, errno
	}
	name, _ := n.Parent()
	return &wiredFile{h.(*fs.LoopbackFile), n.wires, name}, fuse.FOPEN_DIRECT_IO, 0
}

// OpendirHandle is the first call of listing a directory.
func (n *wire) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if _, errno := n.wires.pass(ctx, "list"); errno != 0 {
		return nil, 0, errno
	}
	return n.LoopbackNode.OpendirHandle(ctx, flags)
}

type wiredFile struct {
	*fs.LoopbackFile
	wires *wires
	name  string
}

// Read implements [fs.FileReader].
func (f *wiredFile) Read(ctx context.Context, dest []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	fault, errno := f.wires.pass(ctx, f.name, "read", everyFile)
	if errno != 0 {
		return nil, errno
	}
	if fault.most > 0 {
		dest = dest[:min(len(dest), fault.most)]
	}
	if fault.end > 0 {
		dest = dest[:max(0, min(int64(len(dest)), fault.end-offset))]
	}
	return f.LoopbackFile.Read(ctx, dest, offset)
}

// PassthroughFd refuses passthrough, which would bypass this code.
func (f *wiredFile) PassthroughFd() (int, bool) { return -1, false }

var (
	_ fs.NodeWrapChilder    = (*wire)(nil)
	_ fs.NodeOpener         = (*wire)(nil)
	_ fs.NodeOpendirHandler = (*wire)(nil)
	_ fs.FileReader         = (*wiredFile)(nil)
)

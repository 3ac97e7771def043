package stress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// partStorage shows a directory at a mountpoint: DIR MOUNTPOINT. Lines on its input make a
// share of file operations fail ("fail ERRNO PERCENT") or all of them wait ("stall");
// "heal" ends that. It answers each line, and exits when its input ends.
func partStorage(args []string) error {
	w := &wires{random: rand.New(rand.NewPCG(1, 1))}
	root, err := fs.NewLoopbackRoot(args[0])
	if err != nil {
		return err
	}
	server, err := fs.Mount(args[1], &wire{root.(*fs.LoopbackNode), w}, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMount: true, FsName: "storage", Name: "storage", Options: []string{"ro"}},
	})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := w.do(strings.Fields(lines.Text())); err != nil {
			return err
		}
		fmt.Println("done")
	}
	_ = w.do([]string{"heal"})
	return server.Unmount()
}

// wires control access to the files.
type wires struct {
	mu      sync.Mutex
	random  *rand.Rand
	errno   syscall.Errno
	percent int
	stalled chan struct{} // closed when access resumes; nil: not stalled
}

func (w *wires) do(words []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch words[0] {
	case "fail":
		number, err := strconv.Atoi(words[1])
		if err != nil {
			return err
		}
		w.errno = syscall.Errno(number)
		w.percent, err = strconv.Atoi(words[2])
		return err
	case "stall":
		w.stalled = make(chan struct{})
	case "heal":
		if w.stalled != nil {
			close(w.stalled)
		}
		w.errno, w.percent, w.stalled = 0, 0, nil
	default:
		return fmt.Errorf("what is %s?", words[0])
	}
	return nil
}

// pass is called before every file operation. It may wait or return an error.
func (w *wires) pass(ctx context.Context) syscall.Errno {
	w.mu.Lock()
	stalled, errno := w.stalled, w.errno
	if w.random.IntN(100) >= w.percent {
		errno = 0
	}
	w.mu.Unlock()
	if stalled == nil {
		return errno
	}
	select {
	case <-stalled:
		return 0
	case <-ctx.Done():
		return syscall.EINTR
	}
}

// A wire is a file or directory.
type wire struct {
	*fs.LoopbackNode
	wires *wires
}

func (n *wire) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &wire{child.(*fs.LoopbackNode), n.wires}
}

// Open bypasses the page cache, so that every read arrives here.
func (n *wire) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.wires.pass(ctx); errno != 0 {
		return nil, 0, errno
	}
	h, _, errno := n.LoopbackNode.Open(ctx, flags&^syscall.O_DIRECT)
	if errno != 0 {
		return nil, 0, errno
	}
	return &wiredFile{h.(*fs.LoopbackFile), n.wires}, fuse.FOPEN_DIRECT_IO, 0
}

type wiredFile struct {
	*fs.LoopbackFile
	wires *wires
}

func (f *wiredFile) Read(ctx context.Context, dest []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	if errno := f.wires.pass(ctx); errno != 0 {
		return nil, errno
	}
	return f.LoopbackFile.Read(ctx, dest, offset)
}

// PassthroughFd refuses passthrough, which would bypass this code.
func (f *wiredFile) PassthroughFd() (int, bool) { return -1, false }

var (
	_ fs.NodeWrapChilder = (*wire)(nil)
	_ fs.NodeOpener      = (*wire)(nil)
	_ fs.FileReader      = (*wiredFile)(nil)
)

// A storage is a dataset on a file system that fails and stalls on request.
type storage struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startStorage(from, at string) (*storage, error) {
	s := &storage{cmd: partCommand("part-storage", from, at)}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out, s.cmd.Stderr = bufio.NewReader(out), os.Stderr
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	return s, s.expect("ready")
}

func (s *storage) expect(word string) error {
	if line, err := s.out.ReadString('\n'); err != nil || strings.TrimSpace(line) != word {
		return fmt.Errorf("the storage says %q: %w", line, err)
	}
	return nil
}

// order sends the storage a command.
func (s *storage) order(line string) error {
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		return err
	}
	return s.expect("done")
}

func (s *storage) end() error {
	_ = s.in.Close()
	return s.cmd.Wait()
}

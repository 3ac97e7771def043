package stress

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/layout"
)

// Actions in which files leave the client: it sends them, passes them on, or leaves them to
// another program. Also opens that are interrupted.

// send sends a file through a socket and reads it at the other end while it is open.
func (c *client) send() error {
	return c.withNext(0, func(h *holding) error {
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return c.through(h, "sendfile", ends[0], ends[1], func(offset *int64, n int) (int, error) {
			return unix.Sendfile(ends[1], h.fd, offset, n)
		})
	})
}

// splice does the same with a pipe.
func (c *client) splice() error {
	return c.withNext(0, func(h *holding) error {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		return c.through(h, "splice", ends[0], ends[1], func(offset *int64, n int) (int, error) {
			k, err := unix.Splice(h.fd, offset, ends[1], nil, n, 0)
			return int(k), err
		})
	})
}

// through moves a file from one end of a channel to the other, and closes both ends.
func (c *client) through(h *holding, how string, from, to int, move func(offset *int64, n int) (int, error)) error {
	sent := make(chan error, 1)
	go func() {
		defer unix.Close(to)
		for offset := int64(0); offset < int64(h.size); {
			n, err := move(&offset, h.size-int(offset))
			if err == unix.EINTR || err == unix.EAGAIN {
				continue
			}
			if err == nil && n == 0 {
				err = unix.EPIPE
			}
			if err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	end := os.NewFile(uintptr(from), how)
	err := c.fill(h, 0, h.size, how, func(p []byte, _ int64) (int, error) { return end.Read(p) })
	end.Close() // ends the sender
	if failed := <-sent; failed != nil && err != nil && c.excused(h) {
		return nil
	}
	return err
}

// A letter describes the file passed with it.
type letter struct {
	Key  engine.Key
	Form layout.Form
	From moment
}

// listen makes the socket on which the client receives files.
func (c *client) listen() (err error) {
	if c.post, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return err
	}
	at := c.address(c.index)
	_ = os.Remove(at.Name)
	return unix.Bind(c.post, at)
}

// passOn sends a file to another client and closes it.
func (c *client) passOn() error {
	return c.withNext(0, func(h *holding) error {
		text, err := json.Marshal(letter{h.x.Key, h.form, h.opened})
		if err != nil {
			return err
		}
		// A client that is gone or busy does not get it.
		_ = unix.Sendmsg(c.post, text, unix.UnixRights(h.fd), c.address(c.random.IntN(roundClients)), unix.MSG_DONTWAIT)
		return nil
	})
}

// collect reads the files received from other clients.
func (c *client) collect() error {
	for {
		text, fd, err := receive(c.post)
		if err != nil {
			return nil // there are no more
		}
		var l letter
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		x := c.oracle.byKey[l.Key]
		may, err := c.oracle.outcomes(x, l.Form, c.damaged(x))
		if err != nil || len(may) == 0 {
			return err
		}
		h := &holding{x: x, form: l.Form, may: may, size: len(may[0]), opened: l.From, fd: fd}
		c.note("%s.%s is passed on to it", l.Key, l.Form)
		err = c.fill(h, 0, h.size, "read of a file passed on", h.pread)
		h.close()
		if err != nil {
			return err
		}
	}
}

// receive returns the next message from a socket, and the file passed with it.
func receive(socket int) (text []byte, fd int, err error) {
	text, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	n, k := 0, 0
	for err = unix.EINTR; err == unix.EINTR; {
		n, k, _, _, err = unix.Recvmsg(socket, text, rights, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return nil, -1, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:k])
	if err != nil || len(messages) == 0 {
		return nil, -1, errors.Join(err, net.ErrClosed)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, -1, err
	}
	return text[:n], fds[0], nil
}

// exec passes a file to another program, closes it, and has the program read it.
func (c *client) exec() error {
	return c.withNext(0, func(h *holding) error {
		cmd := exec.Command("cat")
		cmd.Stdin = os.NewFile(uintptr(h.fd), "batch")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		_ = cmd.Stdin.(*os.File).Close()
		h.fd = -1
		if err != nil {
			return err
		}
		err = c.fill(h, 0, h.size+1, "read in another program", func(p []byte, _ int64) (int, error) { return out.Read(p) })
		_ = out.Close() // a program with more to write would wait for a reader
		if cmd.Wait() != nil && c.excused(h) {
			return nil
		}
		return err
	})
}

// interrupted opens a batch and receives signals meanwhile. The open may return EINTR;
// nothing else may change.
func (c *client) interrupted() error {
	after := time.Duration(c.random.IntN(3000)) * time.Microsecond
	times := 1 + c.random.IntN(3)
	open := func(path string) (int, error) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		tid, done := unix.Gettid(), make(chan struct{})
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for range times {
				select {
				case <-done:
					return
				case <-time.After(after):
					_ = unix.Tgkill(os.Getpid(), tid, unix.SIGUSR1)
				}
			}
		}()
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		close(done)
		<-stopped
		return fd, err
	}
	c.jump()
	h, err := c.openBy(c.next(), c.form(), open, true)
	if h == nil {
		return err
	}
	defer h.close()
	return c.fill(h, 0, h.size, "read after signals", h.pread)
}

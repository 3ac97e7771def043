package headroom

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// A Pressure is a trigger on the kernel's pressure stall information.
type Pressure struct {
	// C receives when processes have waited for memory for 0.1 s within 2 s.
	C <-chan struct{}

	fd     int
	wake   int // an eventfd that ends the wait
	waited sync.WaitGroup
}

// trigger is one that unprivileged users may set: their windows must be multiples of 2 s.
const trigger = "some 100000 2000000\x00"

// WatchPressure sets a trigger on the innermost control group that reports pressure, or on the
// whole machine. It fails if the kernel has neither; polling must do then. root is the directory
// of proc and sys, "/" except in tests. The caller closes the result.
func (h *Host) WatchPressure(root string) (*Pressure, error) {
	var names []string
	for _, g := range h.groups("self") {
		names = append(names, g.dir+"/memory.pressure")
	}
	err := error(fs.ErrNotExist)
	for _, name := range append(names, "proc/pressure/memory") {
		p, e := newPressure(filepath.Join(root, name))
		if e == nil {
			return p, nil
		}
		if !errors.Is(e, fs.ErrNotExist) {
			err = e
		}
	}
	return nil, fmt.Errorf("the kernel reports no memory pressure: %w", err)
}

func newPressure(path string) (*Pressure, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	c := make(chan struct{}, 1)
	p := &Pressure{C: c, fd: fd}
	if _, err = unix.Write(fd, []byte(trigger)); err == nil {
		p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set a trigger on %s: %w", path, err), unix.Close(fd))
	}
	p.waited.Go(func() { p.wait(c) })
	return p, nil
}

func (p *Pressure) wait(c chan<- struct{}) {
	for {
		events := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLPRI}, {Fd: int32(p.wake), Events: unix.POLLIN}}
		_, err := unix.Poll(events, -1)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil, events[1].Revents != 0, events[0].Revents&unix.POLLERR != 0: // the control group is gone
			return
		}
		select {
		case c <- struct{}{}:
		default: // the last event has not been received yet
		}
	}
}

// Close removes the trigger.
func (p *Pressure) Close() error {
	_, err := unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	if err == nil {
		p.waited.Wait()
	}
	return errors.Join(err, unix.Close(p.wake), unix.Close(p.fd))
}

package fusefs

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Session is one mount, from Mount to the end of Wait. Its methods are safe for
// concurrent use.
type Session struct {
	connection
	path   string // where it was mounted, as the kernel lists it
	read   readPath
	reason string
	fs     *filesystem
	done   chan struct{} // closed when the last request has been answered
	gone   chan struct{} // closed when this process's mount namespace no longer has the mount

	unmounting sync.Mutex // serializes Unmount, so that two callers do not both go through the retries
}

// serve answers requests until the mount has ended.
func (m *Session) serve(log *slog.Logger, stopWatch func()) {
	defer close(m.done)
	m.server.Serve()
	stopWatch()
	m.device.Close()
	if entry, _, there, err := m.mount.find(); err == nil && there && m.aborted(entry.path) {
		// A user or the kernel aborted the connection, which leaves a dead mount.
		log.Error("the kernel aborted the mount", "mountpoint", entry.path)
		if err := m.detach(entry.path); err != nil {
			log.Error("the aborted mount could not be taken away", "error", err)
		}
	}
}

// aborted reports whether a mount found under this one's identity is the remains of an
// abort. Without a unique id, the kernel may have reused the identity, so the mount must
// also be dead.
func (m *Session) aborted(path string) bool {
	if m.mount.unique != 0 {
		return true
	}
	dead, err := isDead(path)
	return dead && err == nil
}

// ReadPath is how large forms are read: "passthrough" or "direct".
func (m *Session) ReadPath() string { return string(m.read) }

// Reason says why ReadPath is not "passthrough"; empty when it is.
func (m *Session) Reason() string { return m.reason }

// Path is where the mount was made, absolute and without links. It may have been moved
// since; Unmount and Detach find it anyway.
func (m *Session) Path() string { return m.path }

// Wait returns when the mount has ended, however it was unmounted, and nothing reads from
// it any more.
func (m *Session) Wait() { <-m.done }

// Gone is closed when this process no longer sees the mount: it was unmounted or detached,
// by any process. Wait may take longer, while files are open or another mount namespace has
// the mount too; see Holders.
func (m *Session) Gone() <-chan struct{} { return m.gone }

// Holders are the mount namespaces that keep the file system alive after the mount has
// gone: those created while it was mounted. It is empty once Wait has returned.
func (m *Session) Holders() []Holder {
	select {
	case <-m.done: // the device number may have been reused
		return nil
	default:
		return holders(m.mount.device)
	}
}

// Unmount ends the mount and waits for its last request. If the mount is in use, the error
// wraps unix.EBUSY, after some retries, and the mount stays. It is not an error if the
// mount has already ended or been detached. If another mount namespace keeps the file
// system alive, the mount is gone from this one and the error is a *HeldError.
func (m *Session) Unmount() error {
	m.unmounting.Lock()
	defer m.unmounting.Unlock()
	there, err := m.retry()
	if err != nil || !there {
		return err
	}
	select {
	case <-m.done:
		return nil
	default:
	}
	// The kernel has ended the file system by now, unless another namespace has it.
	if held := m.Holders(); len(held) > 0 && m.alive() {
		return &HeldError{held}
	}
	<-m.done
	return nil
}

// retry unmounts, with retries: the kernel reports a file closed before it releases the
// mount. there is false if there was nothing to unmount.
func (m *Session) retry() (there bool, err error) {
	const tries = 5
	for try, delay := 0, 5*time.Millisecond; ; try, delay = try+1, 2*delay+5*time.Millisecond {
		if there, err = m.unmountOnce(); err == nil || !errors.Is(err, unix.EBUSY) || try == tries {
			return there, err
		}
		select {
		case <-m.done:
			return false, nil
		case <-time.After(delay):
		}
	}
}

func (m *Session) unmountOnce() (there bool, err error) {
	path, there, err := m.find()
	if err != nil || !there {
		return there, err
	}
	if m.mount.isAt(path) { // the last check, right before
		err = unmount(path, false)
	} else {
		err = fmt.Errorf("unmount %s: %w", path, errReplaced)
	}
	if err != nil {
		if _, there, _ := m.find(); !there { // another process unmounted it first
			return false, nil
		}
		return true, err
	}
	return true, nil
}

// Detach removes the mount from view at once. Its users can continue for as long as this
// process answers them; Wait returns when the last one is done. Detach may be called while
// Unmount waits.
func (m *Session) Detach() error {
	path, there, err := m.find()
	if err != nil || !there {
		return err
	}
	if err := m.detach(path); err != nil {
		if _, there, _ := m.find(); !there {
			return nil
		}
		return err
	}
	return nil
}

func (m *Session) detach(path string) error {
	if privileged() {
		return m.mount.detachExactly(path)
	}
	if !m.mount.isAt(path) {
		return fmt.Errorf("unmount %s: %w", path, errReplaced)
	}
	return unmount(path, true)
}

// find returns the mount's current path, and whether it exists. Another mount on top of it
// makes it busy.
func (m *Session) find() (path string, there bool, err error) {
	select {
	case <-m.done:
		return "", false, nil
	default:
	}
	entry, covered, there, err := m.mount.find()
	if there && covered != "" {
		err = fmt.Errorf("unmount %s: %s is mounted over it: %w", entry.path, covered, unix.EBUSY)
	}
	return entry.path, there, err
}

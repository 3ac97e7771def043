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
	done   chan struct{} // closed when the last request was answered
	gone   chan struct{} // closed when this process's namespace has the mount no more

	unmounting sync.Mutex // so that two who try do not both wait out the retries
}

// serve answers requests until the mount has ended.
func (m *Session) serve(log *slog.Logger, stopWatch func()) {
	defer close(m.done)
	m.server.Serve()
	stopWatch()
	m.device.Close()
	if entry, _, there, err := m.mount.find(); err == nil && there && m.aborted(entry.path) {
		// Somebody cut the connection, or the kernel did: what is left is a dead mount.
		log.Error("the kernel aborted the mount", "mountpoint", entry.path)
		if err := m.detach(entry.path); err != nil {
			log.Error("the aborted mount could not be taken away", "error", err)
		}
	}
}

// aborted reports whether a mount that looks like this one is what an abort left.
// Where the kernel's number of it may be another's by now, only its silence tells.
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

// Path is where the mount was made, absolute and without links. It may have been
// moved since; Unmount and Detach find it wherever it is.
func (m *Session) Path() string { return m.path }

// Wait returns when the mount has ended and nobody reads from it any more, whoever
// unmounted it.
func (m *Session) Wait() { <-m.done }

// Gone is closed when the mount is no longer among those that this process sees:
// unmounted or detached, by anyone. Wait may last longer, for as long as files are
// open or another mount namespace has the mount too; see Holders.
func (m *Session) Gone() <-chan struct{} { return m.gone }

// Holders are those who keep the file system alive after the mount has gone: mount
// namespaces that were made while it was there. It is empty when Wait returns.
func (m *Session) Holders() []Holder {
	select {
	case <-m.done: // the device's number may be another's by now
		return nil
	default:
		return holders(m.mount.device)
	}
}

// Unmount ends the mount and waits for its last request. While somebody uses it
// the error wraps unix.EBUSY, after some retries, and the mount lives on. A mount
// that has ended or been detached already is no error. Where another mount namespace
// keeps the file system alive, the mount is gone from this one and the error is a
// *HeldError.
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
	// The kernel has ended the file system by now, unless somebody else has it.
	if held := m.Holders(); len(held) > 0 && m.alive() {
		return &HeldError{held}
	}
	<-m.done
	return nil
}

// retry unmounts, several times over: the kernel tells of a closed file before it has
// let go of the mount. there is false where nothing was to be done.
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
	if m.mount.isAt(path) { // the last look, right before
		err = unmount(path, false)
	} else {
		err = fmt.Errorf("unmount %s: %w", path, errReplaced)
	}
	if err != nil {
		if _, there, _ := m.find(); !there { // somebody else was faster
			return false, nil
		}
		return true, err
	}
	return true, nil
}

// Detach takes the mount out of sight at once. Those who use it can go on for as
// long as this process answers them; Wait returns when the last one is done. It may
// be called while Unmount waits.
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

// find is where the mount is now, and whether it is anywhere. What somebody else
// mounted over it makes it busy.
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

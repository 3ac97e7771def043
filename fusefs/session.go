package fusefs

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A Session is one mount, from Mount to the end of Wait. Its methods are safe for
// concurrent use.
type Session struct {
	path   string // as the kernel lists it
	id     int    // the kernel's number of the mount, 0 if it could not be learnt
	read   readPath
	reason string
	fs     *filesystem
	server *fuse.Server
	done   chan struct{} // closed when the last request was answered

	unmounting sync.Mutex // go-fuse cannot be asked to unmount twice at once
}

// serve answers requests until the mount has ended.
func (m *Session) serve(log *slog.Logger) {
	defer close(m.done)
	m.server.Serve()
	if there, err := m.listed(); err == nil && there {
		// Somebody cut the connection, or the kernel did: what is left is a dead mount.
		log.Error("the kernel aborted the mount", "mountpoint", m.path)
		if err := unmount(m.path, true); err != nil {
			log.Error("the aborted mount could not be taken away", "error", err)
		}
	}
}

// ReadPath is how large forms are read: "passthrough" or "direct".
func (m *Session) ReadPath() string { return string(m.read) }

// Reason says why ReadPath is not "passthrough"; empty when it is.
func (m *Session) Reason() string { return m.reason }

// Path is the mountpoint, absolute and without links.
func (m *Session) Path() string { return m.path }

// Wait returns when the mount has ended and nobody reads from it any more, whoever
// unmounted it.
func (m *Session) Wait() { <-m.done }

// Unmount ends the mount and waits for its last request. While somebody uses it
// the error wraps unix.EBUSY, after some retries, and the mount lives on. A mount
// that has ended or been detached already is no error.
func (m *Session) Unmount() error {
	m.unmounting.Lock()
	defer m.unmounting.Unlock()
	if there, err := m.there(); err != nil || !there {
		return err
	}
	if err := m.server.Unmount(); err != nil {
		if there, _ := m.there(); !there { // somebody else was faster
			return nil
		}
		return unmountError(m.path, err)
	}
	<-m.done
	return nil
}

// unmountError keeps go-fuse's errno, or finds it in what fusermount wrote.
func unmountError(path string, err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return fmt.Errorf("unmount %s: %w", path, errno)
	}
	return fusermountError(path, err.Error(), err)
}

// Detach takes the mount out of sight at once. Those who use it can go on for as
// long as this process answers them; Wait returns when the last one is done. It may
// be called while Unmount waits.
func (m *Session) Detach() error {
	if there, err := m.there(); err != nil || !there {
		return err
	}
	if err := unmount(m.path, true); err != nil {
		if there, _ := m.there(); !there {
			return nil
		}
		return err
	}
	return nil
}

// there reports whether the mount is still at its mountpoint. What somebody else
// mounted over it makes it busy.
func (m *Session) there() (bool, error) {
	select {
	case <-m.done:
		return false, nil
	default:
	}
	there, err := m.listed()
	if errors.Is(err, errUnlisted) {
		return true, nil // not known: the kernel will say
	}
	return there, err
}

// errUnlisted means that it is not known what is mounted.
var errUnlisted = errors.New("the mount could not be found when it was made")

// listed looks the mount up among all mounts.
func (m *Session) listed() (bool, error) {
	entries, err := mounts()
	if err != nil || m.id == 0 {
		return false, errUnlisted
	}
	for _, e := range entries {
		if e.id != m.id {
			continue
		}
		if top, ok := topMount(entries, m.path); ok && top.id != m.id {
			return true, fmt.Errorf("unmount %s: %s is mounted over it: %w", m.path, top.fsType, unix.EBUSY)
		}
		return true, nil
	}
	return false, nil
}

package fusefs

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Session is one mount, from Mount to the end of Wait. Its methods are safe for
// concurrent use.
type Session struct {
	connection
	path   string // where it was mounted, as the kernel lists it
	reason string
	fs     *filesystem
	done   chan struct{} // closed when the last request has been answered
	gone   chan struct{} // closed when this process's mount namespace no longer has the mount

	unmounting sync.Mutex // serializes Unmount, so that two callers do not both go through the retries
}

// ReadPath is how large forms are read: "passthrough" or "direct".
func (m *Session) ReadPath() string { return m.fs.path }

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
	if !m.alive() { // the device number may have been reused
		return nil
	}
	return holders(m.mount.device)
}

// serve answers requests until the mount has ended. If a user or the kernel aborted the
// connection, which leaves a dead mount, serve removes it.
func (m *Session) serve(log *slog.Logger) {
	defer close(m.done)
	m.server.Serve()
	m.device.Close()
	entry, err := m.mount.find()
	if err != nil || entry == nil {
		return
	}
	if _, err := mountedAt(entry.Mountpoint); !errors.Is(err, ErrDead) { // the kernel has reused the id and the device
		return
	}
	log.Error("the kernel aborted the mount", "mountpoint", entry.Mountpoint)
	if err := m.remove(entry.Mountpoint, true); err != nil {
		log.Error("the aborted mount could not be removed", "error", err)
	}
}

// watch closes m.gone when this process no longer sees the mount. The kernel reports changes of the
// mount table, and the mount's end is one of them.
func (m *Session) watch(log *slog.Logger) {
	// Not os.Open: Go's poller would watch the file too, and each change is reported to
	// only one of the two.
	table, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	go func() {
		defer close(m.gone)
		defer unix.Close(table)
		for err == nil || errors.Is(err, unix.EINTR) {
			if entry, err := m.mount.find(); err == nil && entry == nil || !m.alive() {
				return
			}
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(table), Events: unix.POLLPRI}}, -1)
		}
		log.Warn("cannot watch for unmounts; one will go unnoticed while others hold the mount", "error", err)
		<-m.done
	}()
}

// Unmount ends the mount and waits for its last request. If the mount is in use, the error
// wraps unix.EBUSY, after some retries, and the mount stays. It is not an error if the
// mount has already ended or been detached. If another mount namespace keeps the file
// system alive, the mount is gone from this one and the error is a *HeldError.
func (m *Session) Unmount() error {
	m.unmounting.Lock()
	defer m.unmounting.Unlock()
	there, err := m.end(false)
	// The kernel reports a file closed before it releases the mount.
	for delay := 5 * time.Millisecond; errors.Is(err, unix.EBUSY) && delay < 300*time.Millisecond; delay *= 2 {
		select {
		case <-m.done:
			return nil
		case <-time.After(delay):
		}
		there, err = m.end(false)
	}
	if err != nil || !there && m.alive() { // detached, and still in use
		return err
	}
	// The kernel has ended the file system by now, unless another namespace has it.
	if held := m.Holders(); len(held) > 0 && m.alive() {
		return &HeldError{held}
	}
	<-m.done
	return nil
}

// Detach removes the mount from view at once. Its users can continue for as long as this
// process answers them; Wait returns when the last one is done. Detach may be called while
// Unmount waits.
func (m *Session) Detach() error {
	_, err := m.end(true)
	return err
}

// end unmounts, or detaches if lazy. there is false if the mount was gone before, or
// another process was first.
func (m *Session) end(lazy bool) (there bool, err error) {
	if m.mount.unique == 0 && !m.alive() { // the mount that has its id and device number now may be another one
		return false, nil
	}
	entry, err := m.mount.find()
	if err != nil || entry == nil {
		return false, err
	}
	if err = m.remove(entry.Mountpoint, lazy); err == nil {
		return true, nil
	}
	if entry, findErr := m.mount.find(); entry == nil && findErr == nil || !m.alive() {
		return false, nil
	}
	return true, err
}

// remove unmounts from a path only if this mount is still there. With privileges it detaches
// through a descriptor, so that it cannot hit another mount that has just taken the path.
func (m *Session) remove(path string, lazy bool) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	now, err := identify(fd, "")
	if err == nil && now != m.mount {
		err = fmt.Errorf("another mount is there now: %w", unix.EBUSY)
	}
	direct := lazy && privileged()
	if err == nil && direct {
		err = unix.Unmount("/proc/self/fd/"+strconv.Itoa(fd), unix.MNT_DETACH)
	}
	unix.Close(fd) // otherwise the mount would be busy
	switch {
	case err != nil:
		return fmt.Errorf("unmount %s: %w", path, err)
	case direct:
		return nil
	}
	return unmount(path, lazy)
}

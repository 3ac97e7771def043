package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// live is what attend needs of a mount.
type live interface {
	Wait()
	Unmount() error
	Detach() error
	ReadPath() string
	Path() string
}

// attend waits for the end of a mount: unmounted from outside, or by a
// signal. A mount in use survives the first signal; the second detaches it,
// after which batches that are open stay readable. closed says that nobody
// holds anything of it any more.
func (c *console) attend(m live, signals <-chan os.Signal) (closed bool, err error) {
	mountpoint := m.Path()
	gone := make(chan struct{})
	go func() {
		m.Wait()
		close(gone)
	}()
	for asked := 1; ; asked++ {
		select {
		case <-gone:
			return true, nil
		case <-signals:
		}
		switch {
		case asked == 1:
			err := m.Unmount()
			if err == nil {
				continue // gone follows
			}
			if !errors.Is(err, unix.EBUSY) {
				return false, hint(fmt.Errorf("unmount %s: %w", mountpoint, err), "batchfs umount --lazy %s", shellWord(mountpoint))
			}
			c.say("%s is in use and stays mounted", mountpoint)
			c.say("hint: fuser -vm %s shows who reads it; a second signal, or batchfs umount --lazy %s, detaches it now", shellWord(mountpoint), shellWord(mountpoint))
		case asked == 2:
			if err := m.Detach(); err != nil {
				return false, fmt.Errorf("detach %s: %w", mountpoint, err)
			}
			if m.ReadPath() == "passthrough" {
				return false, nil // the kernel serves what is open without us
			}
			c.say("detached %s; serving what is still open, a third signal ends that", mountpoint)
		default:
			return false, nil
		}
	}
}

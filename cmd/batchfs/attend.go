package main

import (
	"errors"
	"fmt"
	"os"
	"time"

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

// tryAgain is how often a mount that is to end looks whether it is still in use.
const tryAgain = time.Second

// attend waits for the end of a mount: unmounted from outside, or by a
// signal. A mount in use survives the first signal, until nobody uses it; the
// second detaches it, after which batches that are open stay readable. What there
// is to know about that goes to tell. closed says that nobody holds anything of the
// mount any more.
func attend(m live, signals <-chan os.Signal, tell func(message, hint string)) (closed bool, err error) {
	mountpoint := m.Path()
	word := shellWord(mountpoint)
	gone := make(chan struct{})
	go func() {
		m.Wait()
		close(gone)
	}()
	var again <-chan time.Time // nil, which never comes, while nothing is to be tried
	for asked := 0; ; {
		select {
		case <-gone:
			return true, nil
		case <-again:
		case <-signals:
			asked++
		}
		switch {
		case asked == 1:
			err := m.Unmount()
			if err == nil {
				again = nil
				continue // gone follows
			}
			if again == nil && !errors.Is(err, unix.EBUSY) {
				return false, hint(fmt.Errorf("unmount %s: %w", mountpoint, err), "batchfs umount --lazy %s", word)
			}
			if again == nil {
				again = time.Tick(tryAgain)
				tell(fmt.Sprintf("%s is in use and will be unmounted as soon as nobody uses it", mountpoint),
					fmt.Sprintf("fuser -vm %s shows who reads it; a second signal, or batchfs umount --lazy %s, detaches it now", word, word))
			}
		case asked == 2:
			again = nil
			if err := m.Detach(); err != nil {
				return false, fmt.Errorf("detach %s: %w", mountpoint, err)
			}
			if m.ReadPath() == "passthrough" {
				return false, nil // the kernel serves what is open without us
			}
			tell(fmt.Sprintf("detached %s; serving what is still open, a third signal ends that", mountpoint), "")
		default:
			return false, nil
		}
	}
}

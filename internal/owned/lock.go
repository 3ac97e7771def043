package owned

import (
	"os"

	"golang.org/x/sys/unix"
)

// Lock is flock(2), asked again when a signal interrupts it. The error is the bare errno.
func Lock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

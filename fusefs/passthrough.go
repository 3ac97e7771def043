package fusefs

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const fuseDevice = "/dev/fuse"

// tryPassthrough asks the kernel to back an inode with fd, over a FUSE connection of its
// own that is not mounted, and returns why it refuses. It leaves nothing behind, so it can
// run before the mount is made.
func tryPassthrough(fd int) error {
	server, release, err := detachedConnection()
	if err != nil {
		return err
	}
	defer release()
	if server.KernelSettings().Flags64()&fuse.CAP_PASSTHROUGH == 0 {
		return errors.New("the kernel does not offer it (Linux 6.9 or newer does)")
	}
	id, errno := server.RegisterBackingFd(&fuse.BackingMap{Fd: int32(fd)})
	switch errno {
	case 0:
		server.UnregisterBackingFd(id)
		return nil
	case unix.EPERM:
		return fmt.Errorf("CAP_SYS_ADMIN in the initial user namespace is missing: %w", errno)
	case unix.ELOOP:
		return fmt.Errorf("the file system under batch memory cannot be served: %w", errno)
	}
	return fmt.Errorf("the kernel refuses the file: %w", error(errno))
}

// detachedConnection creates a FUSE file system that is attached to no directory, and its
// server after the handshake. release ends both.
func detachedConnection() (*fuse.Server, func(), error) {
	device, err := unix.Open(fuseDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", fuseDevice, err)
	}
	superblock, err := createSuperblock([][2]string{
		{"source", fsType},
		{"fd", strconv.Itoa(device)},
		{"rootmode", strconv.FormatInt(unix.S_IFDIR, 8)},
		{"user_id", strconv.Itoa(os.Geteuid())},
		{"group_id", strconv.Itoa(os.Getegid())},
	})
	if err != nil {
		unix.Close(device)
		return nil, nil, err
	}
	// To go-fuse this looks like a mount prepared by a privileged parent. The server now
	// owns the device.
	opts := &fuse.MountOptions{Name: fsType, Logger: log.New(io.Discard, "", 0), DisableSplice: true, MaxStackDepth: stackDepth}
	server, err := fuse.NewServer(fuse.NewDefaultRawFileSystem(), "/dev/fd/"+strconv.Itoa(device), opts)
	if err != nil {
		unix.Close(superblock)
		return nil, nil, fmt.Errorf("greet the kernel: %w", err)
	}
	release := func() {
		unix.Close(superblock) // ends the connection
		server.Serve()         // notices the end, and closes the device
	}
	return server, release, nil
}

// createSuperblock creates a FUSE file system that is not mounted. Settings without a value
// are flags.
func createSuperblock(settings [][2]string) (int, error) {
	fs, err := unix.Fsopen("fuse", unix.FSOPEN_CLOEXEC)
	switch {
	case errors.Is(err, syscall.EPERM):
		return -1, fmt.Errorf("CAP_SYS_ADMIN is missing: %w", err)
	case err != nil:
		return -1, fmt.Errorf("fsopen fuse: %w", err)
	}
	for _, s := range settings {
		set := func() error { return unix.FsconfigSetString(fs, s[0], s[1]) }
		if s[1] == "" {
			set = func() error { return unix.FsconfigSetFlag(fs, s[0]) }
		}
		if err := set(); err != nil {
			unix.Close(fs)
			return -1, fmt.Errorf("fuse option %s=%s: %w", s[0], s[1], err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		unix.Close(fs)
		return -1, fmt.Errorf("create a fuse file system: %w", err)
	}
	return fs, nil
}

package fusefs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/detached"
)

// This package connects to the kernel itself. With go-fuse, every child of the process
// would inherit the device, and a mount would be identified by path. Here the device is
// close-on-exec, and the FUSE handshake is done before the mount becomes visible.

const fuseDevice = "/dev/fuse"

// A connection is a mount after the FUSE handshake.
type connection struct {
	server *fuse.Server
	mount  identity
	device *os.File // a duplicate of go-fuse's device, to tell whether the kernel still listens
}

// alive reports whether the kernel still serves the mount, that is, whether it was neither
// aborted nor finally unmounted.
func (c connection) alive() (alive bool) {
	raw, err := c.device.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) { // an error means that it is closed
		events := []unix.PollFd{{Fd: int32(fd)}}
		_, err := unix.Poll(events, 0)
		for err == unix.EINTR { // a signal was pending
			_, err = unix.Poll(events, 0)
		}
		alive = err == nil && events[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) == 0
	})
	return alive
}

// connect mounts at a path returned by realPath. With privileges, it attaches the mount after
// the FUSE handshake.
func connect(fs fuse.RawFileSystem, path string, opts *fuse.MountOptions) (connection, error) {
	if !privileged() {
		return connectByFusermount(fs, path, opts)
	}
	c, mount, err := detachedConnection(fs, opts)
	if err != nil {
		return c, err
	}
	defer unix.Close(mount)
	if c.mount, err = identify(mount, ""); err == nil {
		err = unix.MoveMount(mount, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err != nil { // go-fuse's descriptor is closed when its server is collected
		return c, errors.Join(fmt.Errorf("attach the mount: %w", err), c.device.Close())
	}
	return c, nil
}

// detachedConnection creates a mount that is attached to no directory, and does the FUSE handshake.
// Closing the mount ends it unless it has been attached.
func detachedConnection(fs fuse.RawFileSystem, opts *fuse.MountOptions) (c connection, mount int, err error) {
	device, err := unix.Open(fuseDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return c, -1, fmt.Errorf("open %s: %w", fuseDevice, err)
	}
	options := append([]string{"source=" + opts.FsName, "fd=" + strconv.Itoa(device), "rootmode=40000",
		"user_id=" + strconv.Itoa(os.Geteuid()), "group_id=" + strconv.Itoa(os.Getegid())}, mountWords(opts)...)
	mount, err = detached.Mount("fuse", options, unix.MOUNT_ATTR_RDONLY)
	if errors.Is(err, unix.EPERM) {
		err = fmt.Errorf("CAP_SYS_ADMIN is missing: %w", err)
	}
	if err != nil {
		unix.Close(device)
		return c, -1, err
	}
	if c, err = greet(fs, device, opts); err != nil {
		unix.Close(mount)
	}
	return c, mount, err
}

// mountWords are the options that the kernel and fusermount have in common.
func mountWords(opts *fuse.MountOptions) []string {
	words := append([]string{"ro", "subtype=" + mountName, "max_read=" + strconv.Itoa(opts.MaxWrite)}, opts.Options...)
	if opts.AllowOther {
		words = append(words, "allow_other")
	}
	return words
}

// greet does the FUSE handshake on a device, which it takes over.
func greet(fs fuse.RawFileSystem, device int, opts *fuse.MountOptions) (c connection, err error) {
	second, err := unix.FcntlInt(uintptr(device), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		unix.Close(device)
		return c, err
	}
	c.device = os.NewFile(uintptr(second), fuseDevice)
	// To go-fuse this looks like a mount prepared by a privileged parent.
	if c.server, err = fuse.NewServer(fs, "/dev/fd/"+strconv.Itoa(device), opts); err != nil {
		return c, errors.Join(fmt.Errorf("greet the kernel: %w", err), c.device.Close())
	}
	return c, nil
}

// connectByFusermount mounts through fusermount, which may mount for ordinary users.
func connectByFusermount(fs fuse.RawFileSystem, path string, opts *fuse.MountOptions) (connection, error) {
	program, err := findFusermount()
	if err != nil {
		return connection{}, err
	}
	if opts.AllowOther && !userAllowOther() { // fusermount's own message does not explain it
		return connection{}, ErrAllowOther
	}
	words := append([]string{"nosuid", "nodev", "noexec", "fsname=" + opts.FsName}, mountWords(opts)...)
	for i, w := range words {
		words[i] = strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(w)
	}
	device, err := askFusermount(program, "-o", strings.Join(words, ","), "--", path)
	if err != nil {
		return connection{}, err
	}
	c, err := greet(fs, device, opts)
	if err == nil {
		if c.mount, err = identify(unix.AT_FDCWD, path); err == nil {
			return c, nil
		}
		c.device.Close()
	}
	if _, found := mountedAt(path); errors.Is(found, ErrDead) {
		err = errors.Join(err, unmount(path, true))
	}
	return c, err
}

// askFusermount runs fusermount and receives the device from it. fusermount prints its own
// messages to the user.
func askFusermount(program string, args ...string) (device int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "fusermount")
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, []*os.File{theirs}
	err = cmd.Run()
	theirs.Close()
	if _, refused := errors.AsType[*exec.ExitError](err); refused {
		return -1, errRefused
	}
	if err != nil {
		return -1, err
	}
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("receive the device from %s: %w", program, err)
	}
	if messages, err := unix.ParseSocketControlMessage(control[:n]); err == nil && len(messages) == 1 {
		if received, err := unix.ParseUnixRights(&messages[0]); err == nil && len(received) == 1 {
			return received[0], nil
		}
	}
	return -1, fmt.Errorf("%s sent no device", program)
}

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
)

// This package connects to the kernel itself. With go-fuse, every child of the process
// would inherit the device, and a mount would be identified by path. Here the device is
// close-on-exec, and the FUSE handshake is done before the mount becomes visible.

// A connection is a mount after the FUSE handshake.
type connection struct {
	server *fuse.Server
	mount  identity
	device *os.File // a duplicate of go-fuse's device, to tell whether the kernel still listens
}

// alive reports whether the kernel still serves the mount, that is, whether it was neither
// aborted nor finally unmounted.
func (c connection) alive() bool {
	raw, err := c.device.SyscallConn()
	if err != nil {
		return false
	}
	alive := false
	_ = raw.Control(func(fd uintptr) { // an error means that it is closed
		events := []unix.PollFd{{Fd: int32(fd)}}
		_, err := unix.Poll(events, 0)
		alive = err == nil && events[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) == 0
	})
	return alive
}

// connect mounts at a path returned by realPath.
func connect(fs fuse.RawFileSystem, path string, o Options, opts *fuse.MountOptions) (connection, error) {
	if !privileged() {
		return connectByFusermount(fs, path, opts)
	}
	c, err := connectDirectly(fs, path, o, opts)
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.8
		return connectByMount(fs, path, o, opts)
	}
	return c, err
}

// settings are the kernel's mount options for a mount by this process. Options without a
// value are flags.
func settings(device int, o Options, opts *fuse.MountOptions) [][2]string {
	list := [][2]string{
		{"fd", strconv.Itoa(device)},
		{"rootmode", strconv.FormatInt(unix.S_IFDIR, 8)},
		{"user_id", strconv.Itoa(os.Geteuid())},
		{"group_id", strconv.Itoa(os.Getegid())},
		{"max_read", strconv.Itoa(opts.MaxWrite)},
	}
	if o.AllowOther { // the kernel then has to check modes
		list = append(list, [2]string{"allow_other"}, [2]string{"default_permissions"})
	}
	return list
}

// connectDirectly creates the file system, does the FUSE handshake, and only then attaches
// the mount to the path.
func connectDirectly(fs fuse.RawFileSystem, path string, o Options, opts *fuse.MountOptions) (c connection, err error) {
	device, err := unix.Open(fuseDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return c, fmt.Errorf("open %s: %w", fuseDevice, err)
	}
	all := append(settings(device, o, opts), [2]string{"source", o.FsName}, [2]string{"subtype", mountName}, [2]string{"ro"})
	superblock, err := createSuperblock(all)
	if err != nil {
		unix.Close(device)
		return c, err
	}
	defer unix.Close(superblock)
	const flags = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	tree, err := unix.Fsmount(superblock, unix.FSMOUNT_CLOEXEC, flags)
	if err != nil {
		unix.Close(device)
		return c, fmt.Errorf("make a mount: %w", err)
	}
	defer unix.Close(tree)
	if c, err = greet(fs, device, opts); err != nil {
		return c, err
	}
	if c.mount, err = identify(tree, ""); err != nil {
		return c, errors.Join(err, c.close())
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return c, errors.Join(fmt.Errorf("attach the mount: %w", err), c.close())
	}
	return c, nil
}

// connectByMount is for kernels that identify mounts by path only.
func connectByMount(fs fuse.RawFileSystem, path string, o Options, opts *fuse.MountOptions) (c connection, err error) {
	device, err := unix.Open(fuseDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return c, fmt.Errorf("open %s: %w", fuseDevice, err)
	}
	var words []string
	for _, s := range settings(device, o, opts) {
		if s[1] != "" {
			s[0] += "=" + s[1]
		}
		words = append(words, s[0])
	}
	const flags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount(o.FsName, path, fsType, flags, strings.Join(words, ",")); err != nil {
		unix.Close(device)
		return c, err
	}
	return attached(fs, device, path, opts)
}

// connectByFusermount mounts through fusermount, which may mount for ordinary users.
func connectByFusermount(fs fuse.RawFileSystem, path string, opts *fuse.MountOptions) (c connection, err error) {
	program, err := findFusermount()
	if err != nil {
		return c, err
	}
	words := append([]string{"ro", "nosuid", "nodev", "noexec"}, opts.Options...)
	if opts.AllowOther {
		words = append(words, "allow_other")
	}
	words = append(words, "fsname="+opts.FsName, "subtype="+mountName, "max_read="+strconv.Itoa(opts.MaxWrite))
	for i, w := range words {
		words[i] = strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(w)
	}
	device, err := askFusermount(program, "-o", strings.Join(words, ","), "--", path)
	if err != nil {
		return c, err
	}
	return attached(fs, device, path, opts)
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
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return -1, ErrRefused
	}
	if err != nil {
		return -1, err
	}
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("receive the device from %s: %w", program, err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return -1, fmt.Errorf("%s sent no device: %w", program, err)
	}
	received, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(received) != 1 {
		return -1, fmt.Errorf("%s sent no device: %w", program, err)
	}
	return received[0], nil
}

// attached does the FUSE handshake for a mount that is already attached to a path.
func attached(fs fuse.RawFileSystem, device int, path string, opts *fuse.MountOptions) (connection, error) {
	c, err := greet(fs, device, opts)
	if err == nil {
		if c.mount, err = identify(unix.AT_FDCWD, path); err != nil {
			err = errors.Join(err, c.close())
		}
	}
	if err != nil {
		// The failed mount has no daemon: remove it.
		_, clearErr := Clear(path)
		err = errors.Join(err, clearErr)
	}
	return c, err
}

// greet does the FUSE handshake on a device and returns its server. It takes over the
// device.
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

// close gives up a connection that was never served.
func (c connection) close() error {
	return c.device.Close() // go-fuse's descriptor is closed when its server is collected
}

package fusefs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/resolve"
	"github.com/batchfs/batchfs/internal/store"
)

// Why a path cannot be mounted or unmounted.
var (
	errNotDirectory = errors.New("not a directory")
	errNotEmpty     = errors.New("not empty")
	ErrMounted      = errors.New("batchfs is mounted there already")
	ErrNotMounted   = errors.New("no batchfs is mounted there")
	// ErrDead means that the daemon of a mount died; Unmount removes the mount.
	ErrDead = errors.New("the batchfs mounted there has died")
	// ErrHangs means that the daemon of a mount does not answer; a lazy Unmount removes it.
	ErrHangs = errors.New("the batchfs mounted there does not answer")
	// ErrNotYours means that an unprivileged user does not own the mount.
	ErrNotYours = errors.New("the mount belongs to another user")
	// ErrNoFusermount means that an unprivileged user cannot mount or unmount.
	ErrNoFusermount = errors.New("fusermount3 is not installed, and mounting without it needs CAP_SYS_ADMIN")
	// errRefused means that fusermount3 would not mount. It wrote the reason to standard error.
	errRefused = errors.New("fusermount3 refused, with a message of its own")
	// ErrAllowOther means that this user may not use allow_other.
	ErrAllowOther = errors.New("allow_other needs the line user_allow_other in /etc/fuse.conf, or root")
)

// PrepareMountpoint makes sure that a path can be mounted on: it has to be an empty directory. It
// removes the mounts of daemons that died there, and says how many. A user without privileges has
// to be allowed to write to it. The error names the path and wraps one of the errors above or
// fs.ErrNotExist, fs.ErrPermission or EROFS, or is that of CheckApart.
func PrepareMountpoint(mountpoint, dataset string) (removed int, err error) {
	_, err = emptyDirectory(mountpoint)
	for errors.Is(err, ErrDead) {
		if _, err = unmountAt(mountpoint, true); err == nil {
			removed++
			_, err = emptyDirectory(mountpoint)
		}
	}
	if !errors.Is(err, ErrHangs) { // following its links would do so, too
		if err := CheckApart(mountpoint, dataset); err != nil {
			return removed, err
		}
	}
	return removed, err
}

// A NestedError means that a dataset and a mountpoint lie within one another.
type NestedError string

func (e NestedError) Error() string { return string(e) }

// CheckApart refuses a mountpoint inside the dataset, because the mount would become part of the
// data that it shows. It also refuses a dataset inside the mountpoint, because the mount would hide
// it. The error is a NestedError. A dataset in a store is always apart.
func CheckApart(mountpoint, dataset string) error {
	if store.IsURL(dataset) {
		return nil
	}
	data, err := filepath.Abs(dataset)
	if err != nil {
		return err
	}
	point, err := filepath.Abs(mountpoint)
	if err != nil {
		return err
	}
	data, point = resolve.Links(data), resolve.Links(point)
	switch {
	case resolve.Within(point, data):
		return NestedError(fmt.Sprintf("mountpoint %s lies inside the dataset %s", mountpoint, dataset))
	case resolve.Within(data, point):
		return NestedError(fmt.Sprintf("the dataset %s lies inside the mountpoint %s, which would hide it", dataset, mountpoint))
	}
	return nil
}

// emptyDirectory returns the path of a mountpoint as the kernel lists it.
func emptyDirectory(mountpoint string) (path string, err error) {
	if path, err = realPath(mountpoint); err != nil {
		return "", err
	}
	if _, err := mountedAt(path); !errors.Is(err, ErrNotMounted) {
		return "", mountpointError(mountpoint, err)
	}
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, unix.ENOTDIR):
		err = errNotDirectory
	case len(entries) > 0:
		err = errNotEmpty
	case !privileged(): // fusermount3 would refuse it, too, but only once the dataset has been opened
		err = unix.Access(path, unix.W_OK)
	}
	if err != nil {
		return "", mountpointError(mountpoint, err)
	}
	return path, nil
}

// answerTime is how long a daemon may take to answer statfs, which never waits, before it
// counts as hanging.
const answerTime = 10 * time.Second

// mountedAt asks what is mounted at a path returned by realPath. The error is ErrMounted for a
// batchfs that lives, ErrDead or ErrHangs for one that does not, and ErrNotMounted otherwise.
// It uses statfs, because the kernel answers stat from its cache. A mount that the user may not
// access always seems alive.
func mountedAt(path string) (device string, err error) {
	entries, err := mountinfo.GetMounts(nil)
	if err != nil {
		return "", fmt.Errorf("read what is mounted: %w", err)
	}
	top := topMount(entries, path)
	if top == nil || top.FSType != fsType {
		return "", ErrNotMounted
	}
	answer := make(chan error, 1)
	go func() { // ends with the answer, or with the process
		var s unix.Statfs_t
		answer <- unix.Statfs(path, &s)
	}()
	device, err = identityOf(top).device, ErrMounted
	select {
	case failure := <-answer:
		if errors.Is(failure, unix.ENOTCONN) || errors.Is(failure, unix.ECONNABORTED) {
			err = ErrDead
		}
	case <-time.After(answerTime):
		err = ErrHangs
	}
	return device, err
}

// Unmount ends the batchfs mount at a mountpoint, from any process that may do so: directly with
// CAP_SYS_ADMIN, otherwise through fusermount3. lazy detaches it at once and lets its users finish,
// even if it hangs; a dead mount is always detached. The error wraps ErrNotMounted if there is no
// batchfs, and unix.EBUSY if it is in use. A *HeldError means that it is unmounted here, but
// another mount namespace keeps it alive. Otherwise Unmount waits for the end of the daemon, for up
// to endTime, so that the next mount finds its memory free. If ctx ends, Unmount returns its error
// shortly after.
func Unmount(ctx context.Context, mountpoint string, lazy bool) (dead bool, err error) {
	return parallel.Promptly(ctx, func() (bool, error) { return unmountAt(mountpoint, lazy) }, nil)
}

func unmountAt(mountpoint string, lazy bool) (dead bool, err error) {
	path, err := realPath(mountpoint)
	if err != nil {
		return false, err
	}
	device, err := mountedAt(path)
	dead = errors.Is(err, ErrDead)
	if !dead && !errors.Is(err, ErrMounted) && !(lazy && errors.Is(err, ErrHangs)) {
		return false, mountpointError(mountpoint, err)
	}
	daemon := -1
	if !dead && !lazy { // a detached mount ends with its last user
		daemon = daemonOf(path)
		defer unix.Close(daemon)
	}
	if err := unmount(path, lazy || dead); err != nil {
		return false, err
	}
	if held := holders(device); len(held) > 0 && !dead {
		return false, &HeldError{held}
	}
	awaitEnd(daemon, endTime)
	return dead, nil
}

// endTime is how long the daemon of a mount that has ended may take to end. If its storage hangs,
// it takes three seconds.
const endTime = 5 * time.Second

// daemonOf is a descriptor of the daemon of the mount at a path; -1: it is not known, as in another
// PID namespace.
func daemonOf(path string) (pidfd int) {
	var config struct {
		PID int `json:"pid"`
	}
	_ = readJSON(filepath.Join(path, kinds[controlDir].name, kinds[configDoc].name), &config)
	if !strings.Contains(commandOf(config.PID), mountName) {
		return -1
	}
	pidfd, err := unix.PidfdOpen(config.PID, 0)
	if err != nil {
		return -1
	}
	return pidfd
}

// awaitEnd waits until a process has ended, or as long as given; below 0: without a limit.
func awaitEnd(pidfd int, most time.Duration) {
	if pidfd < 0 {
		return
	}
	for until := time.Now().Add(most); ; {
		left := -1
		if most >= 0 {
			left = int(max(0, time.Until(until).Milliseconds()))
		}
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, left)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// unmount removes the topmost mount at a path.
func unmount(path string, lazy bool) (err error) {
	if privileged() {
		flags := unix.UMOUNT_NOFOLLOW
		if lazy {
			flags |= unix.MNT_DETACH
		}
		err = unix.Unmount(path, flags)
	} else {
		err = fusermount(path, lazy)
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}

// fusermount unmounts through fusermount, which may unmount for ordinary users. Its output
// is meant for people, but programs need to know if the mount is busy.
func fusermount(path string, lazy bool) error {
	program, err := findFusermount()
	if err != nil {
		return err
	}
	args := []string{"-u", path}
	if lazy {
		args = []string{"-u", "-z", path}
	}
	var output bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Dir = "/" // never a directory of the mount
	cmd.Stderr = &output
	err = cmd.Run()
	words := strings.TrimSpace(output.String())
	switch {
	case err == nil:
		return nil
	case strings.Contains(strings.ToLower(words), unix.EBUSY.Error()):
		return unix.EBUSY
	case strings.Contains(words, "not found in /etc/mtab"): // this is where fusermount looks for the owner
		return ErrNotYours
	case words == "":
		return err
	}
	return errors.New(words)
}

func findFusermount() (string, error) {
	for _, name := range []string{"fusermount3", "/bin/fusermount3", "fusermount", "/bin/fusermount"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoFusermount
}

// privileged reports whether this process may mount by itself.
func privileged() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

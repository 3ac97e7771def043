package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/option"
)

func umountCommand(c *console) *cli.Command {
	return command("umount MOUNTPOINT", func(f *flagSet) runner {
		var lazy bool
		f.toggle(&lazy, "lazy", false, "detach a mount that is in use: it disappears now and ends with its last reader")
		return func(ctx context.Context, args []string) error { return c.umount(ctx, args[0], lazy) }
	})
}

func (c *console) umount(ctx context.Context, mountpoint string, lazy bool) error {
	word := shellWord(mountpoint)
	dead, err := fusefs.Unmount(ctx, mountpoint, lazy)
	if dead {
		c.say("cleared a mount at %s whose daemon had died", mountpoint)
		return nil
	}
	held, isHeld := errors.AsType[*fusefs.HeldError](err)
	switch {
	case isHeld: // unmounted here, and held elsewhere
		c.say("%s; its daemon ends when they end, or when it is killed", heldWords(mountpoint, held))
		return nil
	case errors.Is(err, unix.EBUSY):
		return busyError(ctx, mountpoint)
	}
	const mounted = "to see what is mounted: findmnt -t fuse.batchfs"
	const other = "unmount it as the user who mounted it, or as root: sudo batchfs umount "
	return advise(err,
		advice{fusefs.ErrNotMounted, mounted},
		advice{fs.ErrNotExist, mounted},
		advice{fusefs.ErrHangs, "batchfs umount --lazy " + word},
		advice{fusefs.ErrNotYours, other + word},
		advice{fs.ErrPermission, other + word})
}

// busyError says who uses a mount.
func busyError(ctx context.Context, mountpoint string) error {
	word := shellWord(mountpoint)
	users, err := fusefs.Users(ctx, mountpoint)
	if err != nil || len(users) == 0 { // it is used by another user's processes, or they have just ended
		return hint(fmt.Errorf("%s is in use", mountpoint), "sudo fuser -vm %s shows who uses it; batchfs umount --lazy %s detaches it anyway", word, word)
	}
	return hint(fmt.Errorf("%s is in use: %s", mountpoint, usersWords(users)),
		"an array keeps its batch until it is deleted or its process ends; batchfs umount --lazy %s detaches the mount, and what is open stays readable", word)
}

// usersWords names processes and the files they use, as many as fit on a line.
func usersWords(users []fusefs.User) string {
	const most = 3
	var words []string
	for _, u := range users[:min(most, len(users))] {
		what := displayName(cmp.Or(u.Files[0], "the mountpoint"))
		if more := len(u.Files) - 1; more > 0 {
			what += fmt.Sprintf(" and %d more", more)
		}
		words = append(words, fmt.Sprintf("%s (process %d) uses %s", displayName(u.Command), u.PID, what))
	}
	if more := len(users) - most; more > 0 {
		words = append(words, fmt.Sprintf("and %d more of them", more))
	}
	return strings.Join(words, "; ")
}

// prepareMountpoint makes sure that a path can be mounted on, and reports what is wrong otherwise.
func (c *console) prepareMountpoint(path, dataset string) error {
	removed, err := fusefs.PrepareMountpoint(path, dataset)
	for range removed {
		c.say("cleared a mount at %s whose daemon had died", path)
	}
	return mountpointError(path, err)
}

// mountpointError adds a hint to an error about an unusable mountpoint.
func mountpointError(path string, err error) error {
	if _, nested := errors.AsType[fusefs.NestedError](err); nested {
		return hint(err, "choose a directory elsewhere: batchfs mount DATASET MOUNTPOINT")
	}
	word := shellWord(path)
	return advise(err,
		advice{fs.ErrNotExist, "mkdir -p " + word},
		advice{fusefs.ErrMounted, "batchfs umount " + word},
		advice{fusefs.ErrDead, "batchfs umount --lazy " + word},
		advice{fusefs.ErrHangs, "batchfs umount --lazy " + word},
		advice{fs.ErrPermission, "choose a directory that you may write to"},
		advice{unix.EROFS, "choose a directory that you may write to"},
		advice{err, "choose an empty directory, such as a new one: mkdir -p " + shellWord(filepath.Clean(path)+".mnt")})
}

// mountError adds a hint to an error from mounting.
func mountError(readPath string, err error) error {
	if readPath == "passthrough" && errors.Is(err, unix.EPERM) {
		return hint(err, "passthrough needs CAP_SYS_ADMIN: mount as root, with --allow-other for other users, or leave out --read-path passthrough")
	}
	if _, ok := errors.AsType[*option.Error](err); ok {
		return hint(err, "add what it is made of to --targets, or leave it out of --list")
	}
	return advise(err,
		advice{fusefs.ErrAllowOther, "echo user_allow_other | sudo tee -a /etc/fuse.conf"},
		advice{fusefs.ErrNoFusermount, "sudo apt-get install fuse3, or mount as root"},
		advice{err, cmp.Or(deviceAdvice(), "to see what this machine lacks, and how to fix it: batchfs doctor")})
}

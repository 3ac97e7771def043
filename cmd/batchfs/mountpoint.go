package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/fusefs"
)

// prepareMountpoint makes sure that a path can be mounted on: it clears a dead daemon's
// mount there, and reports what is wrong otherwise.
func (c *console) prepareMountpoint(path, dataset string) error {
	err := fusefs.CheckMountpoint(path)
	for errors.Is(err, fusefs.ErrDead) {
		if _, err = fusefs.Unmount(path, true); err == nil {
			c.say("cleared a mount at %s whose daemon had died", path)
			err = fusefs.CheckMountpoint(path)
		}
	}
	if err := apart(dataset, path); err != nil {
		return err
	}
	return mountpointError(path, err)
}

// apart refuses a mountpoint inside the dataset, which would become part of what it shows,
// and a dataset inside the mountpoint, which the mount would hide.
func apart(dataset, mountpoint string) error {
	data, err := realPath(dataset)
	if err != nil {
		return nil // opening it gives a better error
	}
	point, err := realPath(mountpoint)
	if err != nil {
		return nil // checking it gives a better error
	}
	elsewhere := "choose a directory elsewhere: batchfs mount DATASET MOUNTPOINT"
	if inside(point, data) {
		return hint(fmt.Errorf("mountpoint %s lies inside the dataset %s", mountpoint, dataset), "%s", elsewhere)
	}
	if inside(data, point) {
		return hint(fmt.Errorf("the dataset %s lies inside the mountpoint %s, which would hide it", dataset, mountpoint), "%s", elsewhere)
	}
	return nil
}

func realPath(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return filepath.Abs(real)
}

func inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// mountpointError adds a hint to an error about an unusable mountpoint.
func mountpointError(path string, err error) error {
	if err == nil {
		return nil
	}
	word := shellWord(path)
	err = advise(err,
		advice{fs.ErrNotExist, "mkdir -p " + word},
		advice{fusefs.ErrMounted, "batchfs umount " + word},
		advice{fusefs.ErrDead, "batchfs umount --lazy " + word},
		advice{fusefs.ErrHangs, "batchfs umount --lazy " + word},
		advice{fs.ErrPermission, "choose a directory that you may write to"})
	if hintOf(err) == "" {
		err = hint(err, "choose an empty directory, such as a new one: mkdir -p %s", shellWord(filepath.Clean(path)+".mnt"))
	}
	return err
}

// mountError adds a hint to an error from mounting.
func mountError(readPath string, err error) error {
	if readPath == "passthrough" && errors.Is(err, unix.EPERM) {
		return hint(err, "passthrough needs CAP_SYS_ADMIN: mount as root, with --allow-other for other users, or leave out --read-path passthrough")
	}
	err = advise(err,
		advice{fusefs.ErrAllowOther, "echo user_allow_other | sudo tee -a /etc/fuse.conf"},
		advice{fusefs.ErrNoFusermount, "sudo apt-get install fuse3, or mount as root"})
	if hintOf(err) == "" {
		err = hint(err, "%s", cmp.Or(deviceAdvice(), "to see what this machine lacks, and how to fix it: batchfs doctor"))
	}
	return err
}

// shellWord quotes a path so that it can be copied into a shell.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,@%"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

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
	cleared, err := fusefs.Clear(path)
	if err != nil {
		return mountpointError(path, err)
	}
	if cleared {
		c.say("cleared a mount at %s whose daemon had died", path)
	}
	if err := apart(dataset, path); err != nil {
		return err
	}
	return mountpointError(path, fusefs.CheckMountpoint(path))
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
	word := shellWord(path)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return hint(err, "mkdir -p %s", word)
	case errors.Is(err, fusefs.ErrMounted):
		return hint(err, "batchfs umount %s", word)
	case errors.Is(err, fusefs.ErrDead), errors.Is(err, fusefs.ErrHangs):
		return hint(err, "batchfs umount --lazy %s", word)
	case errors.Is(err, fs.ErrPermission):
		return hint(err, "choose a directory that you may write to")
	}
	return hint(err, "choose an empty directory: mkdir -p mnt")
}

// mountError adds a hint to an error from mounting.
func mountError(readPath string, err error) error {
	switch {
	case readPath == "passthrough" && errors.Is(err, unix.EPERM):
		return hint(err, "it takes CAP_SYS_ADMIN: mount as root, with --allow-other for the others, or leave out --read-path passthrough")
	case errors.Is(err, fusefs.ErrAllowOther):
		return hint(err, "echo user_allow_other | sudo tee -a /etc/fuse.conf")
	case errors.Is(err, fusefs.ErrNoFusermount):
		return hint(err, "sudo apt-get install fuse3, or mount as root")
	}
	return hint(err, "%s", cmp.Or(deviceAdvice(), "what this machine lacks, and how to get it: batchfs doctor"))
}

// shellWord quotes a path so that it can be copied into a shell.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,@%"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// shellWords quotes each word of a command line.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = shellWord(word)
	}
	return strings.Join(quoted, " ")
}

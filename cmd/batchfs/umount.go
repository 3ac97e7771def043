package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/promptly"
)

func umountCommand(c *console) *cobra.Command {
	return command("umount MOUNTPOINT", func(f *flagSet) runner {
		var lazy bool
		f.toggle(&lazy, "lazy", false, "detach a mount that is in use: it disappears now and ends with its last reader")
		return func(ctx context.Context, args []string) error { return c.umount(ctx, args[0], lazy) }
	})
}

func (c *console) umount(ctx context.Context, mountpoint string, lazy bool) error {
	word := shellWord(mountpoint)
	dead, err := promptly.Do(ctx, func() (bool, error) { return fusefs.Unmount(mountpoint, lazy) }, nil)
	if dead {
		c.say("cleared a mount at %s whose daemon had died", mountpoint)
		return nil
	}
	var held *fusefs.HeldError
	switch {
	case errors.Is(err, context.Canceled):
		return errInterrupted
	case errors.As(err, &held): // unmounted, as far as possible from here
		c.say("%s; its daemon ends when they end, or when it is killed", heldWords(mountpoint, held))
		return nil
	case errors.Is(err, unix.EBUSY):
		return hint(fmt.Errorf("%s is in use", mountpoint), "fuser -vm %s shows who uses it; batchfs umount --lazy %s detaches it anyway", word, word)
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

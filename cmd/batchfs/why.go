package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/engine"
)

func whyCommand(c *console) *cli.Command {
	return command("why PATH", func(f *flagSet) runner {
		jsonFlag(c, f, "print one JSON object")
		return func(ctx context.Context, args []string) error {
			found, err := fusefs.Explain(ctx, args[0])
			if err != nil {
				return whyError(args[0], found.Root, err)
			}
			return c.show(explanation{found})
		}
	})
}

// whyError says why nothing is known about a path, in the mount at root if there is one.
func whyError(path, root string, err error) error {
	switch {
	case errors.Is(err, fusefs.ErrDead):
		return hint(fmt.Errorf("the daemon of the mount at %s has died, which ends every read", root), "batchfs umount %s", shellWord(root))
	case errors.Is(err, fusefs.ErrNotMounted):
		return hint(fmt.Errorf("%s is not in a batchfs mount", path), "to see what is mounted: findmnt -t fuse.batchfs")
	case errors.Is(err, fusefs.ErrNotBatch):
		return hint(wrongUsage(fmt.Errorf("PATH must be a file of a batch, but is %q", path)),
			"batchfs why %s", shellWord(filepath.Join(root, "shard-0", "epoch-0", "batch-00000.npy")))
	case errors.Is(err, fs.ErrPermission): // the error names a file that fusefs looked for
		return hint(fmt.Errorf("%s: permission denied", displayName(path)), askTheOwner)
	}
	return err
}

// askTheOwner is what to do about a mount that another user made for themselves.
const askTheOwner = "ask as the user who mounted it, or mount with --allow-other"

// explanation is the output of why.
type explanation struct{ fusefs.Explanation }

// errnos are the errors of opens that why explains.
var errnos = map[string]syscall.Errno{"EIO": unix.EIO, "ENOMEM": unix.ENOMEM, "EFBIG": unix.EFBIG, "ENOENT": unix.ENOENT}

func (why explanation) print(out io.Writer) {
	last, advice := why.Last, ""
	if last == nil {
		fmt.Fprintf(out, "%s: no open of this batch has failed, as far as the mount remembers\n", displayName(why.Path))
	} else {
		at := ""
		if !last.Time.IsZero() {
			at = ", at " + last.Time.Format("15:04:05 on 2006-01-02")
		}
		errno := errnos[last.Error]
		fmt.Fprintf(out, "%s: error %d, %s: %v%s\n", displayName(why.Path), int(errno), last.Error, errno, at)
		if len(why.Corrupt) == 0 || last.Hint != "" {
			fmt.Fprintf(out, "  %s\n", oneLine(last.Reason))
		}
		advice = last.Hint
		if advice == "" && last.Error == "EIO" {
			advice = why.badFileAdvice()
		}
	}
	for _, bad := range why.Corrupt {
		fmt.Fprintf(out, "  %s (id %d): %s\n", displayName(bad.Path), bad.ID, oneLine(bad.Reason))
		advice = cmp.Or(advice, why.badFileAdvice())
	}
	if advice != "" {
		fmt.Fprintf(out, "what to do: %s\n", advice)
	}
}

func (why explanation) badFileAdvice() string {
	without := engine.Zero.String()
	if why.OnError == engine.Fail.String() {
		without = engine.Replace.String() + " or " + without
	}
	return fmt.Sprintf("repair what is bad, and open the batch again; batchfs verify %s lists all such files; --on-error %s goes on without them",
		shellWord(why.Dataset), without)
}

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/promptly"
	"github.com/batchfs/batchfs/internal/resolve"
	"github.com/batchfs/batchfs/layout"
)

func whyCommand(c *console) *cli.Command {
	return command("why PATH", func(f *flagSet) runner {
		jsonFlag(c, f, "print one JSON object")
		return func(ctx context.Context, args []string) error {
			why, err := promptly.Do(ctx, func() (explanation, error) { return explain(args[0]) }, nil)
			if err != nil {
				return err
			}
			return c.show(why)
		}
	})
}

// explanation is the output of why.
type explanation struct {
	Path    string            `json:"path"`
	Last    *fusefs.Failure   `json:"last_error"` // nil: none is known
	Corrupt []dataset.BadFile `json:"corrupt"`    // as far as is known

	dataset, onError string // settings of the mount
}

// explain collects what a mount knows about a batch.
func explain(path string) (why explanation, err error) {
	why.Path, why.Corrupt = path, []dataset.BadFile{}
	root, below, err := mountOf(path)
	if err != nil {
		return why, err
	}
	real := filepath.Join(root, below)
	if _, err := os.Lstat(real); err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return why, err
		}
		why.Last = &fusefs.Failure{Error: "ENOENT", Reason: absence(root, below)}
		return why, nil
	}
	if _, _, ok := layout.ParseBatchName(filepath.Base(real)); !ok {
		return why, hint(wrongUsage(fmt.Errorf("PATH must be a file of a batch, but is %q", path)),
			"batchfs why %s", shellWord(filepath.Join(root, "shard-0", "epoch-0", "batch-00000.npy")))
	}
	value := make([]byte, 1<<16) // the most that an attribute can have
	n, err := unix.Getxattr(real, fusefs.ErrorAttribute, value)
	switch {
	case errors.Is(err, unix.ENODATA):
	case err != nil:
		return why, fmt.Errorf("read %s of %s: %w", fusefs.ErrorAttribute, path, err)
	default:
		if err := json.Unmarshal(value[:n], &why.Last); err != nil {
			return why, fmt.Errorf("read %s of %s: %w", fusefs.ErrorAttribute, path, err)
		}
	}
	return why, why.addCorrupt(root, real)
}

// mountOf finds the mount that a path lies in, of which the last names may not exist.
func mountOf(path string) (root, below string, err error) {
	real := resolve.Links(absolute(path))
	for root = real; ; root = filepath.Dir(root) {
		switch _, err := os.Stat(filepath.Join(root, ".batchfs", "config.json")); {
		case err == nil:
			below, err := filepath.Rel(root, real)
			return root, below, err
		case errors.Is(err, unix.ENOTCONN):
			return "", "", hint(fmt.Errorf("the daemon of the mount at %s has died, which ends every read", root), "batchfs umount %s", shellWord(root))
		case errors.Is(err, fs.ErrPermission):
			return "", "", hint(err, "ask as the user who mounted it, or mount with --allow-other")
		case root == filepath.Dir(root):
			return "", "", hint(fmt.Errorf("%s is not in a batchfs mount", path), "to see what is mounted: findmnt -t fuse.batchfs")
		}
	}
}

// addCorrupt adds the files that the batch's document calls corrupt. Only under --on-error fail
// does it do so, and can it be read without waiting for the batch.
func (why *explanation) addCorrupt(root, batch string) error {
	var config struct {
		Dataset string `json:"dataset"`
		Flags   struct {
			OnError string `json:"on-error"`
		} `json:"flags"`
	}
	if err := readJSON(filepath.Join(root, ".batchfs", "config.json"), &config); err != nil {
		return err
	}
	why.dataset, why.onError = config.Dataset, config.Flags.OnError
	if why.onError != engine.Fail.String() {
		return nil
	}
	var doc struct {
		Samples []struct {
			dataset.BadFile
			Status string `json:"status"`
		} `json:"samples"`
	}
	number, _, _ := strings.Cut(filepath.Base(batch), ".")
	if err := readJSON(filepath.Join(filepath.Dir(batch), number+".json"), &doc); err != nil {
		return err
	}
	for _, s := range doc.Samples {
		if s.Status == catalog.StatusCorrupt.String() {
			why.Corrupt = append(why.Corrupt, s.BadFile)
		}
	}
	return nil
}

func readJSON(path string, to any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(bytes.TrimSpace(text), to)
}

// numbered matches names that are, or could be meant as, those of shards, epochs and batches.
var numbered = regexp.MustCompile(`^(shard|epoch|batch)-(\d+)(?:\.(.*))?$`)

// absence says why there is no such path in a mount.
func absence(root, below string) string {
	dir, kinds := root, []string{"shard", "epoch", "batch"}
	for depth, name := range strings.Split(below, "/") {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil {
			dir = path
			continue
		}
		if parts := numbered.FindStringSubmatch(name); parts != nil && depth < len(kinds) && parts[1] == kinds[depth] {
			return missing(dir, parts)
		}
		break
	}
	return "the mount has no such name; a batch is called as " + filepath.Join("shard-0", "epoch-0", "batch-00000.npy")
}

// missing says why a directory has no shard, epoch or batch of some name, which numbered has taken
// apart.
func missing(dir string, name []string) string {
	kind, digits, ext := name[1], name[2], name[3]
	spell := func(i int) string { return kind + "-" + strconv.Itoa(i) }
	if kind == "batch" {
		form, known := layout.ParseForm(ext)
		if !known {
			var words []string
			for _, f := range layout.Forms() {
				words = append(words, "."+f.Ext())
			}
			return fmt.Sprintf("the files of a batch end in %s, not %q", alternatives(words), strings.TrimSuffix("."+ext, "."))
		}
		spell = func(i int) string { return string(layout.AppendName(nil, i, form)) }
	}
	n := sort.Search(1<<31-1, func(i int) bool {
		_, err := os.Lstat(filepath.Join(dir, spell(i)))
		return err != nil
	})
	i, err := strconv.Atoi(digits)
	switch {
	case n == 0:
		return "there is no " + kind + " at all: epochs are empty if --last-batch drops the only batch"
	case err == nil && i < n:
		return "it is called " + spell(i)
	}
	if n == 1 {
		return fmt.Sprintf("there is only 1 %s, %s", kind, spell(0))
	}
	return fmt.Sprintf("there are %s, %s to %s", count(n, kind), spell(0), spell(n-1))
}

// errnos are the errors of opens that are explained.
var errnos = map[string]syscall.Errno{"EIO": unix.EIO, "ENOMEM": unix.ENOMEM, "EFBIG": unix.EFBIG, "ENOENT": unix.ENOENT}

func (why explanation) print(out io.Writer) {
	last, advice := why.Last, ""
	if last == nil {
		fmt.Fprintf(out, "%s: no open of this batch has failed, as far as the mount remembers\n", shown(why.Path))
	} else {
		at := ""
		if !last.Time.IsZero() {
			at = ", at " + last.Time.Format("15:04:05 on 2006-01-02")
		}
		errno := errnos[last.Error]
		fmt.Fprintf(out, "%s: error %d, %s: %v%s\n", shown(why.Path), int(errno), last.Error, errno, at)
		if len(why.Corrupt) == 0 || last.Hint != "" {
			fmt.Fprintf(out, "  %s\n", oneLine(last.Reason))
		}
		advice = last.Hint
		if advice == "" && last.Error == "EIO" {
			advice = why.badFileAdvice()
		}
	}
	for _, bad := range why.Corrupt {
		fmt.Fprintf(out, "  %s (id %d): %s\n", shown(bad.Path), bad.ID, oneLine(bad.Reason))
		advice = cmp.Or(advice, why.badFileAdvice())
	}
	if advice != "" {
		fmt.Fprintf(out, "what to do: %s\n", advice)
	}
}

func (why explanation) badFileAdvice() string {
	without := engine.Zero.String()
	if why.onError == engine.Fail.String() {
		without = engine.Replace.String() + " or " + without
	}
	return fmt.Sprintf("repair what is bad, and open the batch again; batchfs verify %s lists all such files; --on-error %s goes on without them",
		shellWord(why.dataset), without)
}

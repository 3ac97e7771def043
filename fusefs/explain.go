package fusefs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/resolve"
	"github.com/batchfs/batchfs/layout"
)

// ErrNotBatch means that a path in a mount is not that of a batch's file.
var ErrNotBatch = errors.New("not a file of a batch")

// An Explanation is what a mount knows about a batch.
type Explanation struct {
	Path    string            `json:"path"`
	Last    *Failure          `json:"last_error"` // nil: no error is known
	Corrupt []dataset.BadFile `json:"corrupt"`    // files that the batch would show, if they are known

	Root    string `json:"-"` // root of the mount; "": the path is in none
	Dataset string `json:"-"`
	OnError string `json:"-"`
}

// Explain collects what a mount knows about the batch at a path, which need not exist. It may be
// called in any process, and returns ctx's error shortly after ctx ends. The error wraps
// ErrNotMounted if the path is in no mount, ErrDead or fs.ErrPermission if the mount at Root cannot
// be asked, or ErrNotBatch.
func Explain(ctx context.Context, path string) (Explanation, error) {
	return parallel.Promptly(ctx, func() (Explanation, error) { return explain(path) }, nil)
}

func explain(path string) (why Explanation, err error) {
	why.Path, why.Corrupt = path, []dataset.BadFile{}
	if path, err = filepath.Abs(path); err != nil {
		return why, err
	}
	real := resolve.Links(path)
	if why.Root, err = mountOf(real); err != nil {
		return why, err
	}
	if err := why.addConfig(); err != nil {
		return why, err
	}
	if _, err := os.Lstat(real); err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return why, err
		}
		below, err := filepath.Rel(why.Root, real)
		why.Last = &Failure{Error: "ENOENT", Reason: absence(why.Root, below)}
		return why, err
	}
	value := make([]byte, 1<<16)                                                                // the most that an attribute can have
	if _, err := unix.Getxattr(real, attributes[0].name, value); errors.Is(err, unix.ENODATA) { // each of them has it
		return why, ErrNotBatch
	}
	n, err := unix.Getxattr(real, errorAttribute, value)
	if err == nil {
		err = json.Unmarshal(value[:n], &why.Last)
	}
	if err != nil && !errors.Is(err, unix.ENODATA) {
		return why, fmt.Errorf("read %s of %s: %w", errorAttribute, why.Path, err)
	}
	return why, why.addCorrupt(real)
}

// mountOf finds the mount that a resolved path lies in. The last names of the path need not exist.
func mountOf(path string) (root string, err error) {
	dead := ""
	for root = path; ; root = filepath.Dir(root) {
		_, err := os.Stat(filepath.Join(root, ".batchfs", "config.json"))
		switch {
		case errors.Is(err, unix.ENOTCONN):
			dead = root
		case dead != "": // the kernel remembers some names below a dead mount's root
		case err == nil:
			return root, nil
		case errors.Is(err, fs.ErrPermission):
			return root, err
		}
		switch {
		case root != filepath.Dir(root):
		case dead != "":
			return dead, ErrDead
		default:
			return "", ErrNotMounted
		}
	}
}

// addConfig adds what the mount's configuration says.
func (why *Explanation) addConfig() error {
	var config struct {
		Dataset string `json:"dataset"`
		Flags   struct {
			OnError string `json:"on-error"`
		} `json:"flags"`
	}
	err := readJSON(filepath.Join(why.Root, ".batchfs", "config.json"), &config)
	why.Dataset, why.OnError = config.Dataset, config.Flags.OnError
	return err
}

// addCorrupt adds the files that the batch's document calls corrupt. Only under --on-error fail
// does the document do so, and can it be read without waiting for the batch.
func (why *Explanation) addCorrupt(batch string) error {
	if why.OnError != engine.Fail.String() {
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

// namesOf returns the names of a mount's arrays.
func namesOf(root string) (names layout.Names) {
	var doc struct {
		Targets []string `json:"targets"`
	}
	_ = readJSON(filepath.Join(root, kinds[datasetDoc].name), &doc) // without it, there are none
	for _, ext := range doc.Targets {
		name, ok := strings.CutSuffix(ext, ".npy")
		if _, known := names.Parse(ext); ok && !known && !strings.Contains(name, ".") {
			names = append(names, name)
		}
	}
	return names
}

// numbered matches the names of shards, epochs and batches, and names that could be meant as such.
var numbered = regexp.MustCompile(`^(shard|epoch|batch)-(\d+)(?:\.(.*))?$`)

// absence says why a path does not exist in a mount.
func absence(root, below string) string {
	dir, kinds := root, []string{"shard", "epoch", "batch"}
	for depth, name := range strings.Split(below, "/") {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil {
			dir = path
			continue
		}
		if parts := numbered.FindStringSubmatch(name); parts != nil && depth < len(kinds) && parts[1] == kinds[depth] {
			return missing(dir, parts, namesOf(root))
		}
		break
	}
	return "the mount has no such name; a batch is called as " + filepath.Join("shard-0", "epoch-0", "batch-00000.npy")
}

// lacking says why a mount has no files of a form.
func lacking(f layout.Form, arrays layout.Names) string {
	ext := arrays.Ext(f)
	text := "batches of this mount have no ." + ext
	if f.IsArray() {
		return text + ": its arrays all have the same shape"
	}
	switch kind, _, _ := strings.Cut(ext, "."); f {
	case layout.CUDA:
		return text + ": it has no GPU"
	case layout.BoxOffsets, layout.BoxCounts:
		return text + ": --targets boxes makes .boxes.offsets.npy, and .boxes.count.npy with --max-boxes"
	case layout.BoxVisible:
		return text + ": it comes with --targets boxes, if annotations say what is visible of objects"
	default:
		return text + ": it comes with --targets " + kind
	}
}

// missing says why a directory has no shard, epoch or batch of some name, which numbered has taken
// apart. The mount may have arrays.
func missing(dir string, name []string, arrays layout.Names) string {
	kind, digits, ext := name[1], name[2], name[3]
	spell := func(i int) string { return kind + "-" + strconv.Itoa(i) }
	if kind == "batch" {
		form, known := arrays.Parse(ext)
		if !known {
			var words []string
			for _, f := range layout.Forms() {
				words = append(words, "."+f.Ext())
			}
			return fmt.Sprintf("the files of a batch end in %s, not %q", english.WordSeries(words, "or"), strings.TrimSuffix("."+ext, "."))
		}
		spell = func(i int) string { return string(arrays.AppendName(nil, i, form)) }
		exists := func(f layout.Form) bool {
			_, err := os.Lstat(filepath.Join(dir, string(arrays.AppendName(nil, 0, f))))
			return err == nil
		}
		if exists(layout.JSON) && !exists(form) {
			return lacking(form, arrays)
		}
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
	return fmt.Sprintf("there are %d %s, %s to %s", n, english.PluralWord(n, kind, ""), spell(0), spell(n-1))
}

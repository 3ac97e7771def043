package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/annotation"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/store"
)

func indexCommand(c *console) *cli.Command {
	return command("index DATASET", func(f *flagSet) runner {
		o := dataset.Options{Rescan: true}
		datasetFlags(f, &o)
		workerFlag(c, f, &o.Workers)
		f.group = ""
		var rule decode.EntryRule
		var parquet string
		f.add(entryFlag, "off", "keep places where decoding of JPEGs can start, so that mounts are faster: `rows|N|off`, one for each row of MCUs, or every N MCUs",
			entryRule(&rule))
		partFlags(f, &o.Part, &o.Merge)
		var find annotation.Options
		annotationFlags(f, &find, &o)
		f.group = ""
		f.derived("parquet", "none", "also write what is known to a Parquet `FILE`, a row for each image", place(&parquet, "a file"))
		jsonFlag(c, f, "print one JSON object")
		f.check(func() error {
			remoteWorkers(f, f.args[0], remoteRequests, &o.Workers)
			dir := filepath.Dir(parquet)
			if _, err := os.Stat(dir); err != nil { // later, all of the dataset would have been read
				return hint(fmt.Errorf("--parquet %s: %w", displayName(parquet), err), "mkdir -p %s", shellWord(dir))
			}
			return checkIndexFlags(&o, rule, find.Kinds != (annotation.Kinds{}))
		})
		return c.withDataset(f, &o, &find, func(ctx context.Context, a *annotation.Dataset) (_ printable, err error) {
			if err := a.Join(ctx, false); err != nil { // masks are not looked for
				return nil, advise(err, noArray)
			}
			ds, text := a.Images, summary(f.args[0], a.Images)+annotated(a)
			r := indexResult{Summary: text, Dataset: ds.Name, Index: ds.IndexPath, Part: f.text("part"), Report: ds.Report, Unreadable: []dataset.BadFile{}, relied: o.IndexAt != ""}
			for i := range ds.Len() {
				if reason := cmp.Or(ds.Problem(i), ds.Unread(i)); reason != "" {
					r.Unreadable = append(r.Unreadable, dataset.NewBadFile(ds.Path(i), i, reason))
				}
			}
			if parquet != "" {
				if err := writeParquet(ctx, ds, parquet); err != nil {
					return nil, err
				}
				r.Parquet = parquet
			}
			if rule != decode.EntryOff {
				r.Entries, err = c.makeEntries(ctx, a, rule, o.Workers)
			}
			return r, err
		})
	})
}

// writeParquet writes the index of a dataset to a Parquet file.
func writeParquet(ctx context.Context, ds *dataset.Dataset, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = dataset.WriteParquet(ctx, f, ds)
	if err = cmp.Or(err, f.Close()); err != nil {
		_ = os.Remove(path)
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func checkIndexFlags(o *dataset.Options, rule decode.EntryRule, targets bool) error {
	if store.IsURL(o.IndexAt) {
		return hint(badValue("index-at", "a directory of this machine for this command", store.Public(o.IndexAt)),
			"make it in a directory, and copy the .facts file there")
	}
	if o.Part.N > 0 && rule != decode.EntryOff {
		return usage("--entry-points cannot be given with --part; give it with --merge")
	}
	if targets && (o.Part.N > 0 || o.Merge) {
		return usage("--targets cannot be given with --part or --merge; give it in a run after them")
	}
	return nil
}

// indexElsewhere is for what is kept beside the index, where no index can be kept.
var indexElsewhere = advice{dataset.ErrNoIndex, "say where it can be kept: --index-at DIRECTORY"}

// indexResult is the output of index.
type indexResult struct {
	Summary string `json:"summary"`
	Dataset string `json:"dataset"`
	Index   string `json:"index"`
	Parquet string `json:"parquet,omitempty"`
	Part    string `json:"part,omitempty"`
	dataset.Report
	Unreadable []dataset.BadFile       `json:"unreadable"` // as far as is known
	Entries    *annotation.EntryReport `json:"entry_points,omitempty"`
	relied     bool                    // on the index, which is kept where it was said
}

// verdict is the error that ends the command if no index is where one was asked for.
func (r indexResult) verdict() error {
	if !r.relied || r.IndexProblem == "" {
		return nil
	}
	return datasetError(r.Dataset, fmt.Errorf("%w: %s", dataset.ErrKeepIndex, r.IndexProblem))
}

func (r indexResult) print(out io.Writer) {
	if r.Part == "" {
		fmt.Fprintln(out, r.Summary)
	} else {
		fmt.Fprintf(out, "part %s: %s\n", r.Part, count(r.Samples, "image"))
	}
	t := newTable(out)
	t.row("dataset", "%s", displayName(r.Dataset))
	t.row("encoded", "%s", formatBytes(r.Bytes))
	t.row("largest", "%d x %d (height x width)", r.MaxHeight, r.MaxWidth)
	t.row("unreadable", "%d", len(r.Unreadable))
	t.row("scanned", "%d headers read, %d known from before", r.Scanned, r.Reused)
	if r.Index != "" {
		t.row("index", "%s", displayName(r.Index))
	} else {
		t.row("index", "not kept: %s", cmp.Or(r.IndexProblem, "neither XDG_CACHE_HOME nor HOME is set"))
	}
	if r.Parquet != "" {
		t.row("table", "%s", displayName(r.Parquet))
	}
	if r.Entries != nil {
		e := r.Entries
		t.row("entry points", "%d JPEGs have them, %d can have none, %d not known; %s", e.Have, e.None, e.Other, formatBytes(e.Bytes))
	}
	t.Flush()
	printFirstBad(out, r.Unreadable)
}

// formatCounts lists the formats, most frequent first.
func formatCounts(formats map[string]int) string {
	names := slices.SortedFunc(maps.Keys(formats), func(a, b string) int {
		return cmp.Or(formats[b]-formats[a], strings.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, formats[name])
	}
	return strings.Join(names, ", ")
}

// printFirstBad lists some of the files that cannot be read, so that a million of them do not hide
// the earlier messages.
func printFirstBad(out io.Writer, bad []dataset.BadFile) {
	const most = 20
	printBad(out, bad[:min(len(bad), most)])
	if len(bad) > most {
		fmt.Fprintf(out, "and %d more: --json names all of them\n", len(bad)-most)
	}
}

// printBad lists files that cannot be read, one per line.
func printBad(out io.Writer, bad []dataset.BadFile) {
	for _, b := range bad {
		fmt.Fprintf(out, "%s: %s\n", displayName(b.Path), oneLine(b.Reason))
	}
}

const (
	toTry    = "to make one to try: batchfs gen --out photos --images 100"
	aDataset = "a folder of images, a folder of such folders, a manifest, archives, or a list of datasets (.txt); " + toTry
	urls     = "a dataset's URL is like s3://BUCKET/NAME, gs://BUCKET/NAME, az://CONTAINER@ACCOUNT/NAME, hf://datasets/ORG/DATASET/NAME or https://HOST/NAME"
)

// datasetError adds a hint to an error from opening a dataset.
func datasetError(path string, err error) error {
	const try = "a dataset is " + aDataset
	empty := try
	if found, err := fusefs.Explain(context.Background(), path); err == nil || errors.Is(err, fusefs.ErrNotBatch) {
		empty = fmt.Sprintf("%s is a mount of batchfs; name the dataset that it serves, %s", found.Root, displayName(found.Dataset))
	}
	near, parent := try, filepath.Dir(strings.TrimRight(path, "/"))
	if _, err := os.Stat(parent); err == nil && !store.IsURL(path) {
		near = "ls " + shellWord(parent) + " shows what is there; " + toTry
	}
	if scheme, _, ok := strings.Cut(path, ":/"); ok && scheme != "file" && !store.IsURL(path) {
		near = urls
	}
	manifest := "a manifest has a column path (or file_name) and may have label, height, width and format; labels elsewhere: --label-column NAME"
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		manifest = "to read the folders instead of that manifest: --metadata ignore"
	}
	return advise(err,
		advice{store.ErrURL, urls},
		advice{store.ErrNoPlace, "check the name; another service than the vendor's own: --endpoint URL"},
		advice{store.ErrNoRange, wholeObjects},
		advice{store.ErrBusy, "see how the service is, and try again later"},
		advice{store.ErrUntrusted, "check the name and this machine's clock; to trust an authority of your own: SSL_CERT_FILE=FILE"},
		advice{store.ErrAway, "check the network and the name; another service than the vendor's own: --endpoint URL"},
		advice{dataset.ErrIndexAt, "make one: batchfs index " + shellWord(path) + " --index-at DIRECTORY; to do without, leave out --index-at"},
		advice{dataset.ErrKeepIndex, "keep it elsewhere: --index-at DIRECTORY; to do without, leave out --index-at"},
		advice{dataset.ErrColumn, "take labels from another column, of whole numbers or text, or from none: --label-column NAME|none"},
		advice{dataset.ErrArchive, "unpack it, or write its images to files, in one folder for each class"},
		advice{dataset.ErrNotExist, near},
		advice{dataset.ErrEmpty, empty},
		advice{dataset.ErrKind, try},
		advice{dataset.ErrOutside, "if that is intended: --allow-outside"},
		advice{dataset.ErrManifest, manifest},
		advice{dataset.ErrList, "a list names a dataset in each line: a path relative to it, a pattern of archives, or a URL"},
		advice{dataset.ErrLabels, "if the numbers are places in a list of class names, counted from 0, give that list: --classes FILE"},
		advice{dataset.ErrManifests, "name the one that is meant, as in " + shellWord(strings.TrimSuffix(path, "/")+"/metadata.csv") + ", or --metadata ignore"},
		advice{dataset.ErrClasses, "see which classes there are: batchfs index " + shellWord(path)},
		advice{dataset.ErrAway, "see what is mounted there: findmnt -T " + shellWord(path)},
		advice{unix.EMFILE, "allow more open files: ulimit -n 65536"},
		advice{unix.ENFILE, "allow more open files: ulimit -n 65536"},
		lookAtDenied(path, err))
}

// lookAtDenied advises the user to look at the path that could not be read, which is often not the
// path that was given.
func lookAtDenied(path string, err error) advice {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		path = file.Path
	}
	return advice{fs.ErrPermission, "ls -ld " + shellWord(path)}
}

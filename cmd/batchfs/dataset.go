package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/batchfs/batchfs/internal/annotation"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/store"
)

// datasetFlags say how a dataset is opened. Fields of o that are set already are the defaults of
// the command.
func datasetFlags(f *flagSet, o *dataset.Options) {
	f.group = aboutDataset
	f.derived("classes", "the names of the class folders", "number the classes as in `FILE`, one name per line, such as another mount's classes.txt", classFile(&o.Classes))
	f.toggle(&o.AsClasses, "as-classes", o.AsClasses, "take folders as classes even if all of them have names like train, val, images or masks")
	f.add("metadata", "auto", "`auto|ignore`: whether metadata.csv, .jsonl or .parquet in DATASET is its manifest", pick(&o.IgnoreMetadata, "auto|ignore", false, true))
	f.derived("label-column", "label", "take labels from column `NAME` of the manifest, of Parquet or of MDS; none: from no column", anything(&o.LabelColumn, "the name of a column"))
	f.toggle(&o.AllowOutside, "allow-outside", false, "let a manifest name files outside its directory")
	f.add("io", "direct", "read files that are not in the kernel's page cache `direct|buffered`: past it, or through it",
		pick(&o.Storage.Direct, "direct|buffered", true, false))
	f.derived("max-read-bandwidth", "no limit", "read no more than `SIZE` per second from storage, such as 500MB", byteSize(&o.Storage.MaxBandwidth))
	f.derived("endpoint", "the vendor's own", "`URL` of the object store, such as http://localhost:9000", anything(&o.Store.Endpoint, "a URL"))
	f.derived("region", "as configured", "region `NAME` of the S3 bucket", anything(&o.Store.Region, "the name of a region"))
	f.add("storage-wait", "5m", "wait up to `TIME` for an object store that is away or refuses requests for their number; then an open fails with EIO",
		storageWait(&o.Store.Wait))
	f.toggle(&o.Store.Anonymous, "anonymous", false, "read the object store without credentials")
	f.toggle(&o.Store.RequesterPays, "requester-pays", false, "pay for the requests to the bucket yourself")
	f.derived("index-at", "the user's cache directory", "keep the index in `PLACE`, a directory; or use the one at a URL", place(&o.IndexAt, "a directory or a URL"))
	f.derived("local-cache", "none", "keep what is read from an object store in `DIR` on a local disk, for later epochs and mounts", place(&o.Storage.LocalCache.Dir, "a directory"))
	f.derived("local-cache-size", "most of the disk's free space", "let everything in the local cache take `SIZE`, such as 500GB", byteSize(&o.Storage.LocalCache.Size))
	o.Logger = quiet // a mount has its own
	f.check(func() error {
		if o.Storage.LocalCache.Size > 0 && o.Storage.LocalCache.Dir == "" {
			return usage("--local-cache-size needs --local-cache")
		}
		return nil
	})
}

// storageWait accepts a time. In the options of a store, 0 would mean the default.
func storageWait(to *time.Duration) parser {
	parse := duration(to, 0)
	return func(text string) string {
		rule := parse(text)
		if *to == 0 {
			*to = -1
		}
		return rule
	}
}

// classFile accepts a file of class names.
func classFile(to *[]string) parser {
	return func(path string) string {
		const most = 64 << 20
		text, err := func() ([]byte, error) {
			file, err := os.Open(path)
			if err != nil {
				return nil, err
			}
			defer file.Close()
			return io.ReadAll(io.LimitReader(file, most+1))
		}()
		if err == nil && len(text) > most {
			err = fmt.Errorf("it is longer than %s", formatBytes(most))
		}
		if err == nil {
			*to, err = dataset.ParseClasses(text)
		}
		if err != nil {
			return fmt.Sprintf("a file of class names, one per line (%v)", err)
		}
		return ""
	}
}

// deniedHint says how to give a store credentials that it may accept.
func deniedHint(url string, anonymous bool) string {
	if anonymous {
		return "if it needs credentials, leave out --anonymous"
	}
	switch scheme, _, _ := strings.Cut(strings.ToLower(url), "://"); scheme {
	case "s3":
		return "name a profile in AWS_PROFILE, or log in: aws sso login; to read it without credentials: --anonymous"
	case "gs":
		return "log in: gcloud auth application-default login; or name a key file in GOOGLE_APPLICATION_CREDENTIALS; to read it without credentials: --anonymous"
	case "az":
		return "log in: az login; or set AZURE_STORAGE_SAS_TOKEN; to read it without credentials: --anonymous"
	case "hf":
		return "log in: hf auth login; or set HF_TOKEN"
	case "http", "https":
		return "put what the server wants into the URL: https://USER:PASSWORD@HOST/..., or a signed query"
	}
	return "to read it without credentials: --anonymous"
}

// withDataset opens a command's DATASET for its work, with the annotations that are asked for, and
// shows the result.
func (c *console) withDataset(f *flagSet, o *dataset.Options, find *annotation.Options,
	work func(ctx context.Context, a *annotation.Dataset) (printable, error)) runner {
	return func(ctx context.Context, args []string) error {
		a, err := c.openAsked(ctx, args[0], *o, *find)
		if err != nil {
			return c.partsHint(err, f, args)
		}
		defer a.Close()
		result, err := work(ctx, a)
		if err != nil {
			return c.partsHint(err, f, args)
		}
		return c.show(result)
	}
}

// openError says what to do about an error of opening a dataset.
func openError(command, path string, err error, o *dataset.Options) error {
	url, before, after := dataset.StoreURL(path), "batchfs "+command, " ..."
	if entry, ok := errors.AsType[*dataset.EntryError](err); ok {
		path, url, before, after = entry.Name, entry.Name, fmt.Sprintf("name in line %d:", entry.Line), ""
	}
	path = store.Public(path)
	if parts, ok := errors.AsType[*dataset.AmbiguousError](err); ok {
		if parts.Folders {
			after += "; if they are classes, add --as-classes"
		}
		return hint(err, "%s %s%s", before, shellWord(strings.TrimRight(path, "/")+"/"+parts.Meant), after)
	}
	if errors.Is(err, store.ErrDenied) {
		return hint(err, "%s", deniedHint(url, o.Store.Anonymous))
	}
	return datasetError(path, err)
}

// outageTeller tells the user of a command that has no log that it waits for an object store.
type outageTeller struct {
	slog.Handler
	*console
}

// Enabled implements slog.Handler.
func (outageTeller) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements slog.Handler.
func (t outageTeller) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf("; %s: %v", a.Key, a.Value)
		return true
	})
	t.say("%s", text)
	return nil
}

// summary says in one line what a dataset is. It shows a wrong directory, labels with another
// meaning and images in an unsupported format before they cost a training run.
func summary(path string, ds *dataset.Dataset) string {
	path = store.Public(path)
	r, classes := ds.Report, ds.Classes
	text := displayName(path) + ": " + count(r.Samples, "image")
	switch {
	case r.MaxLabel < 0:
		text += " without labels"
		if n := len(r.Numbers); n > 0 {
			text += fmt.Sprintf(" (%s of whole numbers, %s; to take labels from one: --label-column %s)", count(n, "column"), someOf(r.Numbers), shellWord(r.Numbers[0]))
		}
	case classes == nil:
		text += fmt.Sprintf(" with labels up to %d", r.MaxLabel)
	default:
		text += fmt.Sprintf(" in %s (%s)", count(len(classes), "class"), someOf(classes))
		if n := len(r.EmptyClasses); n > 0 {
			text += fmt.Sprintf(", %d of them without images (%s)", n, someOf(r.EmptyClasses))
		}
	}
	if formats := formatCounts(r.Formats); formats != "" {
		text += "; " + formats
	}
	if r.MaxLabel >= 0 && r.Unlabeled > 0 {
		text += fmt.Sprintf("; %d without a label", r.Unlabeled)
	}
	if r.Unreadable > 0 {
		text += fmt.Sprintf("; %d unreadable (batchfs verify %s)", r.Unreadable, shellWord(path))
	}
	text += unended(r.Unended)
	if r.Ignored > 0 {
		text += fmt.Sprintf("; %s (%s)", count(r.Ignored, "ignored file"), r.IgnoredKinds())
	}
	if name := filepath.Base(ds.Manifest); ds.Manifest != "" && name != filepath.Base(path) {
		text += "; listed in " + name + ", which --metadata ignore ignores"
	}
	return text
}

// unended names the archives that may have been cut off; "": none.
func unended(archives []string) string {
	if n := len(archives); n > 0 {
		return fmt.Sprintf("; %s without a mark at the end, so perhaps cut off (%s)", count(n, "archive"), someOf(archives))
	}
	return ""
}

// someOf is the first few of some names.
func someOf(names []string) string {
	const few = 3
	var some []string
	for _, name := range names[:min(few, len(names))] {
		some = append(some, displayName(name))
	}
	if len(names) > few {
		some = append(some, "...")
	}
	return strings.Join(some, ", ")
}

// remoteRequests is how many samples are looked at concurrently if reading one takes tens of
// milliseconds.
const remoteRequests = 256

// remoteWorkers raises the number of workers to most, unless a flag sets it, if a dataset is in a
// store: the workers wait for its answers most of the time.
func remoteWorkers(f *flagSet, path string, most int, workers *int) {
	if dataset.StoreURL(path) != "" && !f.Changed("workers") {
		*workers = max(*workers, most)
	}
}

// remoteReaders does the same for indexing the dataset of a mount, as its memory allows, and sets
// how many samples may be on their way from the store.
func (c *console) remoteReaders(f *flagSet, o *engine.Options, source *dataset.Options) error {
	path, most := f.args[0], engine.StoreLoads(c.machine.cpus, c.memoryLimit(o.MemoryLimit)) // each takes memory
	source.Workers = o.Workers
	remoteWorkers(f, path, min(remoteRequests, most), &source.Workers)
	if dataset.StoreURL(path) != "" && !f.Changed("loads") {
		o.Loads = most
	}
	source.Store.MaxRequests = max(source.Workers, o.Loads)
	return nil
}

package annotation

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/owned"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/resolve"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/target"
)

// Results are stored beside the indexes of datasets, in a file whose name depends on the options. A
// result does not depend on which images exist. It is used as long as everything that was examined
// stays the same; see places.

const (
	keptExtension = ".targets"
	// keptVersion names the rules for reading annotations. Results of another version are made
	// again.
	keptVersion = 9
)

// question identifies the question that a stored file answers. The file's name is a digest of it.
type question struct {
	Version        int
	Images         string // an absolute path
	Real           string // the same, links resolved
	Kinds          []string
	Files          []string
	IgnoreMetadata bool
	AllowOutside   bool
	LabelColumn    string
}

// storedResult is a stored result, without what Options add to it, and the state of everything that
// was examined.
type storedResult struct {
	Marks []mark
	*Found
}

// search finds the annotations of the dataset at a path, and reads them, unless that was kept in
// Options.dir. The path may also be that of a folder that has the images in one folder, and
// annotations in others. What is wrong with the annotation of one image is told to the Builder; an
// error is about all of them. When ctx is done, it returns promptly, even if the storage hangs.
func search(ctx context.Context, path string, o Options) (*Found, error) {
	var stop func()
	o.Progress, stop = parallel.Progress(o.Progress)
	defer stop()
	o.Source.Logger = cmp.Or(o.Source.Logger, slog.New(slog.DiscardHandler))
	open := func() (*Found, error) { return searchNow(ctx, path, o) }
	return parallel.Promptly(ctx, open, func(late *Found) { _ = late.Builder.Close() })
}

func searchNow(ctx context.Context, path string, o Options) (*Found, error) {
	path = absolute(path) // so that what is kept is found from everywhere
	o.Files = slices.Clone(o.Files)
	for k, file := range o.Files {
		o.Files[k] = absolute(file)
	}
	images, err := imagesAt(ctx, path, o.Source)
	if err != nil {
		return nil, err
	}
	about := question{
		Version: keptVersion, Images: images, Kinds: o.Kinds.Names(), Files: o.Files,
		IgnoreMetadata: o.Source.IgnoreMetadata, AllowOutside: o.Source.AllowOutside, LabelColumn: o.Source.LabelColumn,
	}
	if !store.IsURL(images) {
		about.Real = resolve.Links(images)
	}
	file := about.file(&o)
	found, err := load(ctx, file, images, &o)
	if err == nil && found == nil {
		found, err = findAndKeep(ctx, path, file, images, &o)
	}
	if err != nil {
		return nil, err
	}
	found.options = o
	if err := found.mapLabels(o.LabelMap); err != nil {
		_ = found.Builder.Close()
		return nil, err
	}
	return found, nil
}

// findAndKeep finds annotations, and stores the result in a file.
func findAndKeep(ctx context.Context, path, file, images string, o *Options) (*Found, error) {
	found := &Found{Images: images, Builder: target.NewBuilder(o.room())}
	f := &finder{found, *o, newPlaces(ctx, o)}
	defer f.close()
	if err := f.find(path); err != nil {
		_ = found.Builder.Close()
		return nil, err
	}
	if found.keep(file, f.places, o) {
		if again, err := load(ctx, file, images, o); err == nil && again != nil { // the loaded result takes less memory
			_ = found.Builder.Close()
			return again, nil
		}
	}
	return found, nil
}

// absolute is a path that means the same in every directory.
func absolute(path string) string {
	if store.IsURL(path) {
		return path
	}
	abs, err := filepath.Abs(strings.TrimPrefix(path, "file://"))
	if err != nil {
		return path
	}
	return abs
}

// room is a directory for a file of many annotations; "": they stay in memory.
func (o *Options) room() string {
	if o.dir == "" || os.MkdirAll(o.dir, 0o700) != nil {
		return ""
	}
	return o.dir
}

// file is the path of the stored result; "": none.
func (a *question) file(o *Options) string {
	if o.dir == "" || store.Public(a.Images) != a.Images {
		return ""
	}
	err := error(nil)
	if info, e := os.Stat(o.dir); e == nil {
		err = owned.Check(o.dir, info)
	}
	if err == nil && !store.IsURL(a.Images) && resolve.Within(resolve.Links(o.dir), a.Images) {
		err = errors.New("it would lie inside the dataset")
	}
	if err != nil {
		o.Source.Logger.Warn("annotations are not kept", "reason", err)
		return ""
	}
	text, _ := json.Marshal(a) // it always encodes
	sum := sha256.Sum256(text)
	return filepath.Join(o.dir, hex.EncodeToString(sum[:16])+keptExtension)
}

// load returns the stored result if it still holds, else nil. The error is that of a store that was
// waited for: a search would wait once more.
func load(ctx context.Context, file, images string, o *Options) (*Found, error) {
	if file == "" {
		return nil, nil
	}
	b, text, err := target.Load(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var k storedResult
	if err == nil && (json.Unmarshal(text, &k) != nil || k.Found == nil) {
		err = target.ErrKept
	}
	if err != nil {
		o.Source.Logger.Warn("annotations are read again", "index", file, "reason", err)
	}
	p := newPlaces(ctx, o)
	defer p.close()
	if err == nil && len(k.InParts) == b.Len() {
		var same bool
		if same, err = p.same(k.Marks); same {
			k.Images, k.Builder = images, b
			return k.Found, nil
		}
	}
	if b != nil {
		_ = b.Close()
	}
	if errors.Is(err, store.ErrAway) || errors.Is(err, store.ErrBusy) {
		return nil, err
	}
	return nil, nil
}

// keep stores the result, and reports whether it could.
func (f *Found) keep(file string, p *places, o *Options) bool {
	// Members of archives are read after these are opened.
	if file == "" || f.Naming == byKey || p.unsettled.Load() {
		return false
	}
	text, err := json.Marshal(storedResult{p.marks, f})
	if err == nil && bytes.Contains(text, []byte(`\ufffd`)) {
		return false // JSON would change a name that is not text
	}
	if err == nil {
		err = f.Builder.Save(file, text)
	}
	if err != nil {
		o.Source.Logger.Warn("annotations are not kept", "reason", err)
	}
	return err == nil
}

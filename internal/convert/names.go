package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/owned"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/shard"
)

// names are the paths of the result's files, relative to it.
type names struct {
	ds       *dataset.Dataset
	exts     [shard.NumCosts][]string // extensions for samples that get a form
	manifest string                   // name of the manifest to write, "" for a directory dataset
	local    bool                     // the samples are files of this machine
}

func newNames(ds *dataset.Dataset, o Options) names {
	n := names{ds: ds, local: !ds.Packed && !ds.Remote}
	if o.Auto != nil || o.Shares.Packed > 0 {
		n.exts[shard.Packed] = []string{decode.PackedExt}
	}
	if o.Auto != nil || o.Shares.Raw > 0 || o.Shares.Packed == 0 {
		n.exts[shard.Raw] = map[Format][]string{BMP: {".bmp"}, PPM: {".ppm", ".pgm"}}[o.Format]
	}
	switch {
	case o.Manifest != "":
		n.manifest = filepath.Base(o.Manifest)
	case ds.Ordered:
		n.manifest = "metadata.parquet" // makes the directory a dataset with this order
	}
	return n
}

// source is the absolute path of sample i's file, or for a sample in an archive or a store, a name
// for people.
func (n *names) source(i int) string { return n.sourceOf(n.ds.Path(i)) }

// sourceOf is source for a path in a manifest.
func (n *names) sourceOf(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(n.ds.Root, p)
}

// possible are the extensions that a sample may get: all of them, if it is encoded and readable.
func (n *names) possible(s state) (all []string) {
	for form, exts := range n.exts {
		if shard.Cost(form) != s.from && !s.unreadable {
			all = append(all, exts...)
		}
	}
	return all
}

// kept is the path of sample i if it is kept as it is. Its raw or packed copy adds an extension.
func (n *names) kept(i int) string { return n.placed(n.ds.Path(i)) }

// placed is the path, in the result, of the file with a path in the source.
func (n *names) placed(p string) string {
	if store.IsURL(p) {
		p = filepath.Clean(strings.Replace(p, ":", "", 1))
	}
	if n.manifest == "" || filepath.IsLocal(p) {
		return p
	}
	return "outside" + n.sourceOf(p)
}

// reserved returns the part of a path that convert itself uses; "": there is none.
func (n *names) reserved(name string) string {
	first, _, _ := strings.Cut(name, "/")
	if slices.Contains([]string{markerName, scratchName, classesName, n.manifest}, first) {
		return first
	}
	return ""
}

// maxName is the longest name of a file, in bytes.
const maxName = 255

// check makes sure that every sample can have its name, whichever samples are raw or packed. In a
// directory, only the next sample can conflict with such a name, because others sort even later.
func (n *names) check(states []state) error {
	listed, err := n.listed()
	if err != nil {
		return err
	}
	for i, s := range states {
		name, next := n.kept(i), ""
		if n.manifest == "" && i+1 < len(states) && path.Dir(n.kept(i+1)) == path.Dir(name) {
			next = n.kept(i + 1)
		}
		for _, ext := range n.possible(s) {
			copied := name + ext
			if length := len(path.Base(copied)); length > maxName {
				return fmt.Errorf("%s: %w: %d bytes are too long; rename it", name, ErrName, length)
			}
			if _, taken := listed[copied]; taken || copied == next {
				return fmt.Errorf("%s: %w: %s is another sample; rename one of them", name, ErrName, copied)
			}
			if next != "" && dataset.CompareNames(copied, next) > 0 {
				return fmt.Errorf("%s: %w: %s would come after %s, and get its number; rename one of them", name, ErrName, copied, next)
			}
		}
	}
	return nil
}

// listed returns the names of a manifest's samples, after checking that all files of the result
// have different names, which convert itself does not use.
func (n *names) listed() (map[string]int, error) {
	listed := map[string]int{}
	for i := 0; n.manifest != "" && i < n.ds.Len(); i++ {
		name := n.kept(i)
		if first := n.reserved(name); first != "" {
			return nil, fmt.Errorf("%s: %w: %s is reserved", name, ErrName, first)
		}
		if k, taken := listed[name]; taken && n.source(i) != n.source(k) {
			return nil, fmt.Errorf("%s: %w: %s would have the same name", n.source(i), ErrName, n.source(k))
		}
		listed[name] = i
	}
	return listed, nil
}

// WriteOriginal writes a file that has the permissions and the time of another one, and appears
// whole or not at all. Unless it may replace a file, an existing one is an [fs.ErrExist].
func WriteOriginal(path string, data []byte, like fs.FileInfo, replace bool) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	put := owned.Create
	if replace {
		put = owned.Replace
	}
	return put(path, func(f *os.File) error {
		mode := fs.FileMode(0o644)
		if like.Mode().IsRegular() {
			mode = like.Mode().Perm()
		}
		_, err := f.Write(data)
		if err = errors.Join(err, f.Chmod(mode)); err == nil && like.Mode().IsRegular() {
			err = os.Chtimes(f.Name(), time.Time{}, like.ModTime())
		}
		return err
	})
}

// Original is the name of the image that a packed file was made from: without .bfs, and with the
// extension of its format if no image extension is left. "": the name does not end in .bfs.
func Original(packed string, image []byte) string {
	ext := filepath.Ext(packed)
	name := strings.TrimSuffix(packed, ext)
	switch {
	case !strings.EqualFold(ext, decode.PackedExt):
		return ""
	case name == "" || archive.IsImage(name):
		return name
	}
	f := decode.Sniff(image)
	if f == decode.PNM && (image[1] == '2' || image[1] == '5') {
		return name + ".pgm"
	}
	return name + map[decode.Format]string{
		decode.JPEG: ".jpg", decode.PNG: ".png", decode.BMP: ".bmp", decode.PNM: ".ppm", decode.WebP: ".webp",
	}[f]
}

package convert

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/dataset"
)

// names are the paths of the result's files, relative to it.
type names struct {
	ds       *dataset.Dataset
	exts     []string // that raw names can have
	manifest string   // name of the manifest to write, "" for a directory dataset
}

func newNames(ds *dataset.Dataset, o Options) names {
	n := names{ds: ds, exts: []string{".bmp"}}
	if o.Format == PPM {
		n.exts = []string{".ppm", ".pgm"}
	}
	if o.Manifest != "" {
		n.manifest = filepath.Base(o.Manifest)
	}
	return n
}

// source is the absolute path of sample i's file.
func (n *names) source(i int) string {
	if p := n.ds.Path(i); !filepath.IsAbs(p) {
		return filepath.Join(n.ds.Root(), p)
	}
	return n.ds.Path(i)
}

// kept is the path of sample i if it is kept as it is; with an extension, that of its raw copy.
func (n *names) kept(i int) string {
	if p := n.ds.Path(i); n.manifest == "" || filepath.IsLocal(p) {
		return p
	}
	return "outside" + n.source(i)
}

// maxName is the longest name of a file, in bytes.
const maxName = 255

// check makes sure that all samples can have their names, whichever are raw.
func (n *names) check(kinds []kind) error {
	order := make([]int, len(kinds))
	for i := range order {
		order[i] = i
	}
	if n.manifest != "" {
		slices.SortFunc(order, func(a, b int) int { return strings.Compare(n.kept(a), n.kept(b)) })
		if err := n.checkManifest(order); err != nil {
			return err
		}
	}
	for k, i := range order {
		if kinds[i] != encoded {
			continue
		}
		name := n.kept(i)
		if length := len(path.Base(name) + n.exts[0]); length > maxName {
			return fmt.Errorf("%s: %w: %d bytes are too long; rename it", name, ErrName, length)
		}
		// Only names that begin with this one can stand in the way.
		for _, j := range order[k+1:] {
			if !strings.HasPrefix(n.kept(j), name) {
				break
			}
			if err := n.conflict(name, n.kept(j)); err != nil {
				return err
			}
		}
	}
	return nil
}

// conflict says why a raw copy of name cannot have its own name beside another sample.
func (n *names) conflict(name, other string) error {
	for _, ext := range n.exts {
		switch raw := name + ext; {
		case raw == other:
			return fmt.Errorf("%s: %w: %s is another sample; rename one of them", name, ErrName, raw)
		case n.manifest == "" && path.Dir(name) == path.Dir(other) && dataset.CompareNames(raw, other) > 0:
			return fmt.Errorf("%s: %w: %s would come after %s, and get its number; rename one of them", name, ErrName, raw, other)
		}
	}
	return nil
}

// checkManifest makes sure that a manifest has no two files of one name in the result, nor one
// that convert itself uses. order sorts the samples by name.
func (n *names) checkManifest(order []int) error {
	for k, i := range order {
		first, _, _ := strings.Cut(n.kept(i), "/")
		if first == markerName || first == scratchName || first == n.manifest {
			return fmt.Errorf("%s: %w: %s is reserved", n.kept(i), ErrName, first)
		}
		if k > 0 && n.kept(i) == n.kept(order[k-1]) && n.source(i) != n.source(order[k-1]) {
			return fmt.Errorf("%s: %w: %s would have the same name", n.source(i), ErrName, n.source(order[k-1]))
		}
	}
	return nil
}

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
		if err := n.checkReserved(); err != nil {
			return err
		}
		slices.SortFunc(order, func(a, b int) int { return strings.Compare(n.kept(a), n.kept(b)) })
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

// checkReserved makes sure that no sample of a manifest has a name that convert itself uses.
func (n *names) checkReserved() error {
	for i := range n.ds.Len() {
		first, _, _ := strings.Cut(n.kept(i), "/")
		if first == markerName || first == scratchName || first == n.manifest {
			return fmt.Errorf("%s: %w: %s is reserved", n.kept(i), ErrName, first)
		}
	}
	return nil
}

package convert

import (
	"cmp"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/dataset"
)

// tree names every file of the result, by its path relative to the result's root.
type tree struct {
	ds       *dataset.Dataset
	exts     []string // extensions that raw names can have
	manifest string   // name of the manifest to write, "" for a directory dataset
	outside  string   // directory for files from outside the manifest's directory, "" if there are none
	order    []int32  // the samples grouped by directory, sorted by name
	variants []uint16 // of each sample's raw name
	moved    int      // names whose raw copies may sort to another position
}

// newTree names all samples. manifest is the path of the dataset's manifest, or "".
func newTree(ds *dataset.Dataset, f Format, manifest string, kinds []kind) (*tree, error) {
	t := &tree{ds: ds, exts: f.extensions(), order: make([]int32, ds.Len()), variants: make([]uint16, ds.Len())}
	for i := range t.order {
		t.order[i] = int32(i)
	}
	if manifest != "" {
		if err := t.readManifest(path.Base(manifest)); err != nil {
			return nil, err
		}
	}
	children := t.subdirectories()
	for dir, samples := range t.directories() {
		if err := t.nameIn(samples, append(children[dir], t.reserved(dir)...), kinds); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// readManifest prepares for a manifest's paths, which may be of any kind and in any order.
func (t *tree) readManifest(name string) error {
	first := map[string]bool{} // components of paths
	leaves := false
	for i := range t.ds.Len() {
		p := t.ds.Path(i)
		if leavesRoot(p) {
			leaves = true
			continue
		}
		component, _, _ := strings.Cut(p, "/")
		first[component] = true
	}
	for _, name := range t.reserved(".") {
		if first[name] {
			return fmt.Errorf("%s: the manifest names a file that is reserved", name)
		}
	}
	t.manifest = unused(first, name)
	first[t.manifest] = true
	if leaves {
		t.outside = unused(first, "outside")
	}
	slices.SortFunc(t.order, func(a, b int32) int {
		p, q := t.kept(int(a)), t.kept(int(b))
		return cmp.Or(cmp.Compare(path.Dir(p), path.Dir(q)), dataset.CompareNames(p, q), cmp.Compare(a, b))
	})
	return nil
}

// unused is name, with enough tildes prepended to make it unused.
func unused(names map[string]bool, name string) string {
	for names[name] {
		name = "~" + name
	}
	return name
}

func leavesRoot(p string) bool { return p[0] == '/' || p == ".." || strings.HasPrefix(p, "../") }

// kept is the path of sample i if it is kept as it is.
func (t *tree) kept(i int) string {
	p := t.ds.Path(i)
	if t.manifest == "" || !leavesRoot(p) {
		return p
	}
	if p[0] == '/' {
		return t.outside + "/root" + p
	}
	up := 0
	for strings.HasPrefix(p, "../") {
		p, up = p[3:], up+1
	}
	return fmt.Sprintf("%s/up-%d/%s", t.outside, up, p)
}

// raw is the path of sample i's raw copy.
func (t *tree) raw(i int, ext string) string {
	dir, name := path.Split(t.kept(i))
	return dir + rawName(name, t.variants[i], ext)
}

// directories yields each directory that holds samples, with those samples sorted by name. A
// manifest can name one file more than once.
func (t *tree) directories() iter.Seq2[string, []int32] {
	return func(yield func(string, []int32) bool) {
		for start, end := 0, 0; start < len(t.order); start = end {
			dir := path.Dir(t.kept(int(t.order[start])))
			for end = start + 1; end < len(t.order) && path.Dir(t.kept(int(t.order[end]))) == dir; end++ {
			}
			if !yield(dir, t.order[start:end]) {
				return
			}
		}
	}
}

// subdirectories returns the subdirectories of each directory.
func (t *tree) subdirectories() map[string][]string {
	children := map[string][]string{}
	seen := map[string]bool{}
	for dir := range t.directories() {
		for ; dir != "." && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			children[path.Dir(dir)] = append(children[path.Dir(dir)], path.Base(dir))
		}
	}
	return children
}

// reserved are the names in a directory that samples must not use.
func (t *tree) reserved(dir string) []string {
	if dir != "." {
		return nil
	}
	names := []string{markerName, scratchName}
	if t.manifest != "" {
		names = append(names, t.manifest)
	}
	return names
}

// nameIn finds raw names for the samples of one directory.
func (t *tree) nameIn(samples []int32, others []string, kinds []kind) error {
	runs := t.runs(samples)
	names := make([]string, len(runs)+1) // "" after the last
	for k, run := range runs {
		names[k] = path.Base(t.kept(int(run[0])))
	}
	n := newNaming(t.exts, names[:len(runs)], others)
	for k, run := range runs {
		if !slices.ContainsFunc(run, func(i int32) bool { return kinds[i] == encoded }) {
			n.pass(names[k])
			continue
		}
		v, err := n.choose(names[k], names[k+1])
		if err != nil {
			return err
		}
		for _, i := range run {
			t.variants[i] = v
		}
	}
	t.moved += n.moved
	return nil
}

// runs groups samples that are the same file.
func (t *tree) runs(samples []int32) (runs [][]int32) {
	for start, end := 0, 0; start < len(samples); start = end {
		p := t.kept(int(samples[start]))
		for end = start + 1; end < len(samples) && t.kept(int(samples[end])) == p; end++ {
		}
		runs = append(runs, samples[start:end])
	}
	return runs
}

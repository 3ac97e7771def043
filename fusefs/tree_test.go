package fusefs

import (
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// fakePlan has 3 shards of 4 epochs, of which 2 are listed, and 5 batches in each.
func fakePlan() plan { return plan{0, 3, 4, 2, 5, func(int, int) int { return 5 }} }

func fakeTree(t *testing.T, p plan, list ...layout.Form) *tree {
	t.Helper()
	tr, err := newTree(p, list, true, false, layout.Targets{})
	testkit.Must(t, err)
	return tr
}

// walk lists a whole tree. It checks that every name leads to the node it is listed for,
// and every directory back to its parent.
func walk(t *testing.T, tr *tree, dir node, path string, visit func(dir node, path string, n node)) {
	t.Helper()
	dirs := 0
	for i := 0; ; i++ {
		name, n, ok := tr.entry(dir, i)
		if !ok {
			break
		}
		if found, ok := tr.lookup(dir, name); !ok || found != n {
			t.Errorf("%s/%s is listed as %+v and found as %+v, %v", path, name, n, found, ok)
		}
		if found, ok := tr.node(tr.numbers.id(n)); !ok || found != n {
			t.Errorf("%s/%s is %+v, its number %+v, %v", path, name, n, found, ok)
		}
		visit(dir, path+"/"+name, n)
		if n.isDir() {
			dirs++
			if tr.parent(n) != dir {
				t.Errorf("%s/%s is in %+v, not %+v", path, name, tr.parent(n), dir)
			}
			walk(t, tr, n, path+"/"+name, visit)
		}
	}
	if got := tr.subdirs(dir); got != dirs {
		t.Errorf("%s lists %d directories and counts %d", path, dirs, got)
	}
}

// TestPartsOfTrees: nodes that a mount does not have are neither listed nor found, by name or by
// number.
func TestPartsOfTrees(t *testing.T) {
	type place struct {
		dir  node
		name string
	}
	names := func(p plan, list []layout.Form, classes, cuda bool) (*tree, map[place]node) {
		tr, err := newTree(p, list, classes, cuda, layout.Targets{})
		testkit.Must(t, err)
		all := map[place]node{}
		walk(t, tr, node{kind: root}, "", func(dir node, path string, n node) { all[place{dir, path[strings.LastIndexByte(path, '/')+1:]}] = n })
		return tr, all
	}
	one := fakePlan()
	one.first = 2
	with, without := []layout.Form{layout.NHWCForm, layout.CUDA}, []layout.Form{layout.NHWCForm}
	_, all := names(fakePlan(), with, true, true)
	for what, c := range map[string]struct {
		plan          plan
		list          []layout.Form
		classes, cuda bool
		lacks         func(n node) bool
	}{
		"one shard":  {one, with, true, true, func(n node) bool { return n.kind >= shardDir && n.key.Shard != 2 }},
		"no classes": {fakePlan(), with, false, true, func(n node) bool { return n.kind == classesDoc }},
		"no GPU":     {fakePlan(), without, true, false, func(n node) bool { return n.kind == readerDoc || n.form == layout.CUDA }},
	} {
		tr, listed := names(c.plan, c.list, c.classes, c.cuda)
		for at, n := range all {
			_, isListed := listed[at]
			_, reached := tr.node(tr.numbers.id(at.dir))
			found, byName := tr.lookup(at.dir, at.name)
			byName = byName && reached
			numbered, byNumber := tr.node(tr.numbers.id(n))
			if has := !c.lacks(n); isListed != has || byName != has || byNumber != has || has && (found != n || numbered != n) {
				t.Errorf("%s: %s is listed %v, found %v as %+v, by number %v as %+v", what, at.name, isListed, byName, found, byNumber, numbered)
			}
		}
	}
}

// TestTreeBeyondPlan: numbers must not overlap even if a plan has more batches than it
// says, or there are not enough of them.
func TestTreeBeyondPlan(t *testing.T) {
	p := fakePlan()
	p.batches = func(int, int) int { return p.most + 1 }
	tr := fakeTree(t, p, layout.NHWCForm)
	if _, ok := tr.lookup(node{kind: epochDir}, layout.BatchName(p.most)+".nhwc"); ok {
		t.Error("a batch without a number exists")
	}
	if _, err := newTree(plan{0, 1 << 30, 1 << 30, 1, 1 << 30, p.batches}, nil, true, false, layout.Targets{}); err == nil {
		t.Error("a tree of more nodes than numbers is made")
	}
}

func FuzzLookup(f *testing.F) {
	for _, name := range []string{"shard-1", "epoch-0", "batch-00001.npy", "", ".", "batch-00000.labels.npy", "shard-\x00"} {
		f.Add(name, uint64(1))
		f.Add(name, uint64(60))
	}
	tr, err := newTree(fakePlan(), []layout.Form{layout.NHWCForm}, true, false, layout.Targets{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string, id uint64) {
		dir, ok := tr.node(id)
		if !ok {
			return
		}
		n, ok := tr.lookup(dir, name)
		if !ok {
			return
		}
		if back, ok := tr.node(tr.numbers.id(n)); !ok || back != n {
			t.Fatalf("%q is %+v, its number %+v, %v", name, n, back, ok)
		}
	})
}

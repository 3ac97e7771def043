package fusefs

import (
	"math"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/engine"
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

// roundTrip says whether a number belongs to a node of a tree, and checks that the node has this
// number.
func roundTrip(t *testing.T, n numbers, id uint64, shards, epochs, batches int) bool {
	t.Helper()
	x, ok := n.node(id)
	if !ok {
		return false
	}
	if back := n.id(x); back != id {
		t.Fatalf("number %d is %+v, which is number %d", id, x, back)
	}
	if x.key.Shard >= max(shards, 1) || x.key.Epoch >= max(epochs, 1) || x.key.Batch >= max(batches, 1) {
		t.Fatalf("number %d is outside of the tree: %+v", id, x)
	}
	return true
}

// TestNumbersBijection: there are as many numbers as nodes, and each belongs to its node.
func TestNumbersBijection(t *testing.T) {
	const shards, epochs, batches = 3, 4, 5
	n, err := newNumbers(shards, epochs, batches)
	testkit.Must(t, err)
	found := 0
	for id := range n.end() + 100 {
		if roundTrip(t, n, id, shards, epochs, batches) {
			found++
		}
	}
	if want := int(singles) + shards*(1+epochs*(2+batches*int(layout.NumForms))); found != want {
		t.Errorf("%d numbers for %d nodes", found, want)
	}
	if _, ok := n.node(math.MaxUint64); ok {
		t.Error("the number that go-fuse keeps for itself names a node")
	}
}

// TestNumbersStable pins the numbers: they are inode numbers, which must stay the same
// after a remount. Changing them is visible to users.
func TestNumbersStable(t *testing.T) {
	n, err := newNumbers(8, 100, 626)
	testkit.Must(t, err)
	for want, x := range map[uint64]node{
		1:         {kind: root},
		2:         {kind: datasetDoc},
		9:         {kind: errorsDoc},
		10:        {kind: readerDoc},
		32:        {kind: shardDir},
		40:        {kind: epochDir},
		840:       {kind: epochDoc},
		1640:      {kind: batchFile},
		2_042_392: {kind: batchFile, key: engine.Key{Shard: 3, Epoch: 25, Batch: 625}, form: layout.Form(2)},
		5_009_640: {kind: batchFile, form: layout.CUDA},

		5_510_440:  {kind: batchFile, form: layout.MasksNPY},
		11_019_240: {kind: batchFile, form: layout.ArrayForm(0)},
	} {
		if got := n.id(x); got != want {
			t.Errorf("%+v is number %d, want %d", x, got, want)
		}
	}
}

func TestNumbersTooMany(t *testing.T) {
	for _, c := range []struct {
		shards, epochs, batches int
		ok                      bool
	}{
		{1 << 20, 1 << 20, 1 << 16, true},
		{1 << 30, 1 << 30, 0, true},
		{1 << 20, 1 << 20, 1 << 20, false},
		{1 << 32, 1 << 32, 1, false},
		{math.MaxInt, 1, 1, false},
		{math.MaxInt, math.MaxInt, math.MaxInt, false},
		{-1, 1, 1, false},
	} {
		n, err := newNumbers(c.shards, c.epochs, c.batches)
		if (err == nil) != c.ok {
			t.Errorf("%+v: error %v", c, err)
		}
		if err == nil && n.end() > maxID {
			t.Errorf("%+v: numbers up to %d", c, n.end())
		}
	}
}

func FuzzNumbers(f *testing.F) {
	f.Add(uint64(1), 3, 4, 5)
	f.Add(uint64(1<<40), 1000, 100, 100_000)
	f.Add(uint64(math.MaxUint64), 1, 1, 1)
	f.Fuzz(func(t *testing.T, id uint64, shards, epochs, batches int) {
		n, err := newNumbers(shards, epochs, batches)
		if err != nil {
			return
		}
		roundTrip(t, n, id, shards, epochs, batches)
	})
}

package fusefs

import (
	"strconv"
	"strings"

	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/layout"
)

const (
	shardPrefix = "shard-"
	epochPrefix = "epoch-"
)

// A plan says which batches exist.
type plan struct {
	shards, epochs, most int                        // most: upper bound of the batches of an epoch
	batches              func(shard, epoch int) int // at most most
}

// A tree is the mount's directories and names: a pure function of the plan and the listed
// forms. A directory has entries with fixed names, and then numbered ones.
type tree struct {
	plan    plan
	numbers numbers
	list    []layout.Form      // the forms that directories list
	fixed   [len(kinds)][]kind // by kind of directory
}

func newTree(p plan, list []layout.Form, classes bool) (*tree, error) {
	n, err := newNumbers(p.shards, p.epochs, p.most)
	if err != nil {
		return nil, err
	}
	t := &tree{plan: p, numbers: n, list: list}
	for i, k := range kinds {
		if k.name != "" && (classes || kind(i) != classesDoc) {
			t.fixed[k.in] = append(t.fixed[k.in], kind(i))
		}
	}
	return t, nil
}

// node finds the node with an id; false if this tree has none.
func (t *tree) node(id uint64) (node, bool) {
	n, ok := t.numbers.node(id)
	switch n.kind {
	case batchFile:
		ok = ok && n.key.Batch < t.batches(n.key)
	case classesDoc:
		_, ok = t.lookup(node{kind: root}, kinds[classesDoc].name)
	}
	return n, ok
}

// batches counts the batches of an epoch directory. The ids have room for plan.most.
func (t *tree) batches(k engine.Key) int {
	return min(t.plan.batches(k.Shard, k.Epoch), int(t.numbers.batches))
}

// lookup finds a name in a directory. Every node has exactly one name.
func (t *tree) lookup(dir node, name string) (node, bool) {
	n := dir
	for _, k := range t.fixed[dir.kind] {
		if kinds[k].name == name {
			n.kind = k
			return n, true
		}
	}
	ok := false
	switch dir.kind {
	case root:
		n.kind = shardDir
		n.key.Shard, ok = index(name, shardPrefix, t.plan.shards)
	case shardDir:
		n.kind = epochDir
		n.key.Epoch, ok = index(name, epochPrefix, t.plan.epochs)
	case epochDir:
		n.kind = batchFile
		n.key.Batch, n.form, ok = layout.ParseBatchName(name)
		ok = ok && n.key.Batch < t.batches(dir.key)
	}
	return n, ok
}

// index parses the number after a prefix: less than limit, and in canonical form.
func index(name, prefix string, limit int) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	i, err := strconv.Atoi(digits)
	return i, ok && err == nil && i >= 0 && i < limit && strconv.Itoa(i) == digits
}

// entry is the i-th name that a directory lists, or false after the last.
func (t *tree) entry(dir node, i int) (string, node, bool) {
	n, fixed := dir, t.fixed[dir.kind]
	if i < len(fixed) {
		n.kind = fixed[i]
		return kinds[n.kind].name, n, true
	}
	i -= len(fixed)
	switch dir.kind {
	case root:
		n.kind, n.key.Shard = shardDir, i
		return shardPrefix + strconv.Itoa(i), n, i < t.plan.shards
	case shardDir:
		n.kind, n.key.Epoch = epochDir, i
		return epochPrefix + strconv.Itoa(i), n, i < t.plan.epochs
	case epochDir:
		if len(t.list) > 0 && i/len(t.list) < t.batches(dir.key) {
			n.kind, n.key.Batch, n.form = batchFile, i/len(t.list), t.list[i%len(t.list)]
			return string(layout.AppendName(nil, n.key.Batch, n.form)), n, true
		}
	}
	return "", node{}, false
}

// parent is the parent of a directory; the root is its own parent.
func (t *tree) parent(dir node) node {
	parent := node{kind: kinds[dir.kind].in}
	if dir.kind == epochDir {
		parent.key.Shard = dir.key.Shard
	}
	return parent
}

// subdirs counts the subdirectories of a directory.
func (t *tree) subdirs(dir node) int {
	switch dir.kind {
	case root:
		return 1 + t.plan.shards // .batchfs
	case shardDir:
		return t.plan.epochs
	}
	return 0
}

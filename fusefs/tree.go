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
	epochName   = "epoch.json"
)

// rootNames and controlNames are the single nodes of their directories, in listing order.
var (
	rootNames = []single{
		{"dataset.json", datasetDoc},
		{".batchfs", controlDir},
		{"classes.txt", classesDoc}, // last: not every dataset has it
	}
	controlNames = []single{
		{"config.json", configDoc},
		{"stats.json", statsDoc},
		{"metrics", metricsDoc},
		{"memory.json", memoryDoc},
		{"errors.jsonl", errorsDoc},
	}
)

type single struct {
	name string
	kind kind
}

// A plan says which batches exist.
type plan struct {
	shards, epochs, most int                        // most: upper bound of the batches of an epoch
	batches              func(shard, epoch int) int // at most most
}

// A tree is the mount's directories and names: a pure function of the plan and the listed
// forms.
type tree struct {
	plan    plan
	numbers numbers
	list    []layout.Form // the forms that directories list
	root    []single
}

func newTree(p plan, list []layout.Form, classes bool) (*tree, error) {
	n, err := newNumbers(p.shards, p.epochs, p.most)
	if err != nil {
		return nil, err
	}
	t := &tree{plan: p, numbers: n, list: list, root: rootNames}
	if !classes {
		t.root = rootNames[:len(rootNames)-1]
	}
	return t, nil
}

// node finds the node with an id; false if this tree has none.
func (t *tree) node(id uint64) (node, bool) {
	n, ok := t.numbers.node(id)
	if !ok {
		return node{}, false
	}
	switch n.kind {
	case batchFile:
		return n, n.key.Batch < t.batches(n.key)
	case classesDoc:
		return n, len(t.root) == len(rootNames)
	}
	return n, true
}

// batches counts the batches of an epoch directory. The ids have room for plan.most.
func (t *tree) batches(k engine.Key) int {
	return min(t.plan.batches(k.Shard, k.Epoch), int(t.numbers.batches))
}

// lookup finds a name in a directory. Every node has exactly one name.
func (t *tree) lookup(dir node, name string) (node, bool) {
	switch dir.kind {
	case root:
		if i, ok := index(name, shardPrefix, t.plan.shards); ok {
			return node{kind: shardDir, key: engine.Key{Shard: i}}, true
		}
		return find(t.root, name)
	case controlDir:
		return find(controlNames, name)
	case shardDir:
		i, ok := index(name, epochPrefix, t.plan.epochs)
		return node{kind: epochDir, key: engine.Key{Shard: dir.key.Shard, Epoch: i}}, ok
	case epochDir:
		return t.lookupBatch(dir, name)
	}
	return node{}, false
}

func (t *tree) lookupBatch(dir node, name string) (node, bool) {
	if name == epochName {
		return node{kind: epochDoc, key: dir.key}, true
	}
	i, form, ok := layout.ParseBatchName(name)
	if !ok || i >= t.batches(dir.key) {
		return node{}, false
	}
	return node{kind: batchFile, key: engine.Key{Shard: dir.key.Shard, Epoch: dir.key.Epoch, Batch: i}, form: form}, true
}

func find(names []single, name string) (node, bool) {
	for _, s := range names {
		if s.name == name {
			return node{kind: s.kind}, true
		}
	}
	return node{}, false
}

// index parses the number after a prefix: less than limit, and in canonical form.
func index(name, prefix string, limit int) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(digits)
	if err != nil || i < 0 || i >= limit || strconv.Itoa(i) != digits {
		return 0, false
	}
	return i, true
}

// entry is the i-th name that a directory lists, or false after the last.
func (t *tree) entry(dir node, i int) (string, node, bool) {
	switch dir.kind {
	case root:
		return t.rootEntry(i)
	case controlDir:
		if i < len(controlNames) {
			return controlNames[i].name, node{kind: controlNames[i].kind}, true
		}
	case shardDir:
		if i < t.plan.epochs {
			return epochPrefix + strconv.Itoa(i), node{kind: epochDir, key: engine.Key{Shard: dir.key.Shard, Epoch: i}}, true
		}
	case epochDir:
		return t.epochEntry(dir, i)
	}
	return "", node{}, false
}

func (t *tree) rootEntry(i int) (string, node, bool) {
	if i < len(t.root) {
		return t.root[i].name, node{kind: t.root[i].kind}, true
	}
	if i -= len(t.root); i < t.plan.shards {
		return shardPrefix + strconv.Itoa(i), node{kind: shardDir, key: engine.Key{Shard: i}}, true
	}
	return "", node{}, false
}

func (t *tree) epochEntry(dir node, i int) (string, node, bool) {
	if i == 0 {
		return epochName, node{kind: epochDoc, key: dir.key}, true
	}
	i--
	if len(t.list) == 0 || i/len(t.list) >= t.batches(dir.key) {
		return "", node{}, false
	}
	n := node{kind: batchFile, key: dir.key, form: t.list[i%len(t.list)]}
	n.key.Batch = i / len(t.list)
	return string(layout.AppendName(nil, n.key.Batch, n.form)), n, true
}

// parent is the parent of a directory; the root is its own parent.
func (t *tree) parent(dir node) node {
	if dir.kind == epochDir {
		return node{kind: shardDir, key: engine.Key{Shard: dir.key.Shard}}
	}
	return node{kind: root}
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

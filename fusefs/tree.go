package fusefs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/layout"
)

// kind is the type of a node. The first kinds exist once in a mount.
type kind uint8

const (
	root kind = iota
	datasetDoc
	classesDoc
	controlDir
	configDoc
	statsDoc
	metricsDoc
	memoryDoc
	errorsDoc
	readerDoc
	shardDir
	epochDir
	epochDoc
	batchFile

	singles = readerDoc + 1 // number of kinds that are a single node
)

// kinds describes the kinds: their names, if they are fixed, the kind of directory that has them,
// and which are directories.
var kinds = [...]struct {
	name string
	in   kind
	dir  bool
}{
	root:       {dir: true},
	datasetDoc: {name: "dataset.json", in: root},
	classesDoc: {name: "classes.txt", in: root},
	controlDir: {name: ".batchfs", in: root, dir: true},
	configDoc:  {name: "config.json", in: controlDir},
	statsDoc:   {name: "stats.json", in: controlDir},
	metricsDoc: {name: "metrics", in: controlDir},
	memoryDoc:  {name: "memory.json", in: controlDir},
	errorsDoc:  {name: "errors.jsonl", in: controlDir},
	readerDoc:  {name: "batchfs_cuda.py", in: controlDir},
	shardDir:   {in: root, dir: true},
	epochDir:   {in: shardDir, dir: true},
	epochDoc:   {name: "epoch.json", in: epochDir},
	batchFile:  {in: epochDir},
}

// A node is one file or directory of the tree. Fields that do not apply to its kind are
// zero.
type node struct {
	kind kind
	key  engine.Key
	form layout.Form
}

func (n node) isDir() bool { return kinds[n.kind].dir }

// isControl reports whether the node is one of the files below .batchfs, which describe the
// mount itself and change.
func (n node) isControl() bool { return kinds[n.kind].in == controlDir }

const (
	// firstShard leaves room for more single nodes, so that adding one does not change
	// every other inode number.
	firstShard = 32
	// maxID keeps inode numbers positive for programs that store them in a signed integer,
	// and far from the id that go-fuse reserves for itself.
	maxID = 1 << 62
)

// formBlocks says where the blocks of batch files begin and end, by form. With several blocks, a
// form that was added later, or that not every mount has, changes no other inode number.
var formBlocks = [...]layout.Form{0, layout.CUDA, layout.CUDA + 1, layout.FirstArray, layout.NumForms}

// numbers is the bijection between nodes and node ids: single nodes, then shards, epochs, the
// documents of epochs, and the blocks of batch files, each block in mixed radix.
type numbers struct {
	epochs, batches      uint64
	epochDirs, epochDocs uint64                  // first ids of these blocks
	files                [len(formBlocks)]uint64 // likewise; the last one is the first unused id
}

// end is the first unused id.
func (n numbers) end() uint64 { return n.files[len(formBlocks)-1] }

// newNumbers lays out the ids of a tree of shards, epochs per shard, and at most batches
// batches per epoch.
func newNumbers(shards, epochs, batches int) (numbers, error) {
	nodes := firstShard + float64(shards)*(1+float64(epochs)*(2+float64(batches)*float64(layout.NumForms)))
	if min(shards, epochs, batches) < 0 || nodes > maxID {
		return numbers{}, fmt.Errorf("%d shards of %d epochs of %d batches cannot be numbered", shards, epochs, batches)
	}
	dirs, all := firstShard+uint64(shards), uint64(shards)*uint64(epochs)
	n := numbers{epochs: uint64(epochs), batches: uint64(batches), epochDirs: dirs, epochDocs: dirs + all}
	for k, form := range formBlocks {
		n.files[k] = dirs + 2*all + all*n.batches*uint64(form)
	}
	return n, nil
}

// block is the block of batch files that has an id: where it begins, its first form, and how many
// forms it has.
func (n numbers) block(has func(k int) bool) (first uint64, form layout.Form, forms uint64) {
	k := len(formBlocks) - 2
	for !has(k) {
		k--
	}
	return n.files[k], formBlocks[k], uint64(formBlocks[k+1] - formBlocks[k])
}

// id returns the number of an existing node.
func (n numbers) id(x node) uint64 {
	epoch := uint64(x.key.Shard)*n.epochs + uint64(x.key.Epoch)
	switch x.kind {
	case shardDir:
		return firstShard + uint64(x.key.Shard)
	case epochDir:
		return n.epochDirs + epoch
	case epochDoc:
		return n.epochDocs + epoch
	case batchFile:
		first, form, forms := n.block(func(k int) bool { return x.form >= formBlocks[k] })
		return first + (epoch*n.batches+uint64(x.key.Batch))*forms + uint64(x.form-form)
	}
	return fuse.FUSE_ROOT_ID + uint64(x.kind)
}

// node is the inverse of id. It returns false for numbers without a node. The tree decides
// whether the node exists.
func (n numbers) node(id uint64) (node, bool) {
	switch {
	case id < fuse.FUSE_ROOT_ID || id >= n.end():
		return node{}, false
	case id < firstShard:
		x := node{kind: kind(id - fuse.FUSE_ROOT_ID)}
		return x, x.kind < singles
	case id < n.epochDirs:
		return node{kind: shardDir, key: engine.Key{Shard: int(id - firstShard)}}, true
	case id < n.epochDocs:
		return node{kind: epochDir, key: n.epoch(id - n.epochDirs)}, true
	case id < n.files[0]:
		return node{kind: epochDoc, key: n.epoch(id - n.epochDocs)}, true
	}
	first, form, forms := n.block(func(k int) bool { return id >= n.files[k] })
	batch := (id - first) / forms
	key := n.epoch(batch / n.batches)
	key.Batch = int(batch % n.batches)
	return node{kind: batchFile, key: key, form: form + layout.Form((id-first)%forms)}, true
}

func (n numbers) epoch(i uint64) engine.Key {
	return engine.Key{Shard: int(i / n.epochs), Epoch: int(i % n.epochs)}
}

// A plan says which batches exist.
type plan struct {
	first          int                        // shards before it do not exist
	shards, epochs int                        // shards from shards on do not exist either
	listed         int                        // epochs that the directory of a shard lists
	most           int                        // upper bound of the batches of an epoch
	batches        func(shard, epoch int) int // number of batches of an epoch; at most most
}

// A tree is the mount's directories and names: a pure function of the plan and the listed
// forms. A directory has entries with fixed names, and then numbered ones.
type tree struct {
	plan    plan
	numbers numbers
	list    []layout.Form      // the forms that directories list
	cuda    bool               // batches exist in the form CUDA
	targets layout.Targets     // and in the forms of these targets
	names   layout.Names       // names of arrays
	fixed   [len(kinds)][]kind // entries with fixed names, by kind of directory
}

func newTree(p plan, list []layout.Form, classes, cuda bool, targets layout.Targets) (*tree, error) {
	n, err := newNumbers(p.shards, p.epochs, p.most)
	if err != nil {
		return nil, err
	}
	t := &tree{plan: p, numbers: n, list: list, cuda: cuda, targets: targets, names: targets.Names()}
	exists := func(k kind) bool { return (classes || k != classesDoc) && (cuda || k != readerDoc) }
	for i, k := range kinds {
		if k.name != "" && exists(kind(i)) {
			t.fixed[k.in] = append(t.fixed[k.in], kind(i))
		}
	}
	return t, nil
}

// node finds the node with an id; false if this tree has none.
func (t *tree) node(id uint64) (node, bool) {
	n, ok := t.numbers.node(id)
	switch n.kind {
	case shardDir, epochDir, epochDoc:
		ok = ok && n.key.Shard >= t.plan.first
	case batchFile:
		ok = ok && n.key.Shard >= t.plan.first && t.has(n)
	case classesDoc, readerDoc:
		ok = slices.Contains(t.fixed[kinds[n.kind].in], n.kind)
	}
	return n, ok
}

// has reports whether a batch file exists.
func (t *tree) has(n node) bool {
	return n.key.Batch < t.batches(n.key) && (t.cuda || n.form != layout.CUDA) && t.targets.Has(n.form)
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
	if dir.kind == epochDir {
		var ok bool
		n.kind = batchFile
		n.key.Batch, n.form, ok = t.names.ParseBatchName(name)
		return n, ok && t.has(n)
	}
	_, digits, _ := strings.Cut(name, "-")
	i, err := strconv.Atoi(digits)
	if err != nil || i < 0 {
		return n, false
	}
	only, n, ok := t.numbered(dir, i)
	return n, ok && name == only
}

// numbered is the i-th numbered subdirectory of a directory.
func (t *tree) numbered(dir node, i int) (string, node, bool) {
	n := dir
	switch dir.kind {
	case root:
		n.kind, n.key.Shard = shardDir, i
		return "shard-" + strconv.Itoa(i), n, i >= t.plan.first && i < t.plan.shards
	case shardDir:
		n.kind, n.key.Epoch = epochDir, i
		return "epoch-" + strconv.Itoa(i), n, i < t.plan.epochs
	}
	return "", n, false
}

// entry is the i-th name that a directory lists, or false after the last.
func (t *tree) entry(dir node, i int) (string, node, bool) {
	n, fixed := dir, t.fixed[dir.kind]
	if i < len(fixed) {
		n.kind = fixed[i]
		return kinds[n.kind].name, n, true
	}
	if i -= len(fixed); dir.kind == root {
		i += t.plan.first
	}
	if dir.kind != epochDir {
		name, n, ok := t.numbered(dir, i)
		return name, n, ok && (dir.kind != shardDir || i < t.plan.listed)
	}
	if len(t.list) == 0 || i/len(t.list) >= t.batches(dir.key) {
		return "", node{}, false
	}
	n.kind, n.key.Batch, n.form = batchFile, i/len(t.list), t.list[i%len(t.list)]
	return string(t.names.AppendName(nil, n.key.Batch, n.form)), n, true
}

// parent is the parent of a directory; the root is its own parent.
func (t *tree) parent(dir node) node {
	parent := node{kind: kinds[dir.kind].in}
	if dir.kind == epochDir {
		parent.key.Shard = dir.key.Shard
	}
	return parent
}

func (t *tree) subdirs(dir node) int {
	switch dir.kind {
	case root:
		return 1 + t.plan.shards - t.plan.first // .batchfs
	case shardDir:
		return t.plan.listed
	}
	return 0
}

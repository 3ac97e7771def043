package fusefs

import (
	"fmt"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/batchfs/batchfs/engine"
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
	shardDir
	epochDir
	epochDoc
	batchFile

	singles = errorsDoc + 1 // number of kinds that are a single node
)

// kinds is what the kinds are: the names of those that have a fixed one, in which kind of
// directory they are, and which are directories.
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

// isDir reports whether the node is a directory.
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

// numbers is the bijection between nodes and node ids: single nodes, then shards, epochs,
// the documents of epochs, and batch files, each block in mixed radix.
type numbers struct {
	epochs, batches, forms      uint64
	epochDirs, epochDocs, files uint64 // first ids of their blocks
	end                         uint64 // the first unused id
}

// newNumbers lays out the ids of a tree of shards, epochs per shard, and at most batches
// batches per epoch.
func newNumbers(shards, epochs, batches int) (numbers, error) {
	forms := len(layout.Forms())
	nodes := firstShard + float64(shards)*(1+float64(epochs)*(2+float64(batches)*float64(forms)))
	if min(shards, epochs, batches) < 0 || nodes > maxID {
		return numbers{}, fmt.Errorf("%d shards of %d epochs of %d batches cannot be numbered", shards, epochs, batches)
	}
	n := numbers{epochs: uint64(epochs), batches: uint64(batches), forms: uint64(forms)}
	all := uint64(shards) * n.epochs
	n.epochDirs = firstShard + uint64(shards)
	n.epochDocs = n.epochDirs + all
	n.files = n.epochDocs + all
	n.end = n.files + all*n.batches*n.forms
	return n, nil
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
		return n.files + (epoch*n.batches+uint64(x.key.Batch))*n.forms + uint64(x.form)
	}
	return fuse.FUSE_ROOT_ID + uint64(x.kind)
}

// node is the inverse of id. It returns false for numbers without a node. The tree decides
// whether the node exists.
func (n numbers) node(id uint64) (node, bool) {
	switch {
	case id < fuse.FUSE_ROOT_ID || id >= n.end:
		return node{}, false
	case id < firstShard:
		x := node{kind: kind(id - fuse.FUSE_ROOT_ID)}
		return x, x.kind < singles
	case id < n.epochDirs:
		return node{kind: shardDir, key: engine.Key{Shard: int(id - firstShard)}}, true
	case id < n.epochDocs:
		return node{kind: epochDir, key: n.epoch(id - n.epochDirs)}, true
	case id < n.files:
		return node{kind: epochDoc, key: n.epoch(id - n.epochDocs)}, true
	}
	batch, form := (id-n.files)/n.forms, (id-n.files)%n.forms
	key := n.epoch(batch / n.batches)
	key.Batch = int(batch % n.batches)
	return node{kind: batchFile, key: key, form: layout.Form(form)}, true
}

func (n numbers) epoch(i uint64) engine.Key {
	return engine.Key{Shard: int(i / n.epochs), Epoch: int(i % n.epochs)}
}

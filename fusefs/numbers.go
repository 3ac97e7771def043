package fusefs

import (
	"fmt"
	"math/bits"

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

// A node is one file or directory of the tree. Fields that do not apply to its kind are
// zero.
type node struct {
	kind kind
	key  engine.Key
	form layout.Form
}

// isDir reports whether the node is a directory.
func (n node) isDir() bool {
	switch n.kind {
	case root, controlDir, shardDir, epochDir:
		return true
	}
	return false
}

// isControl reports whether the node is one of the files below .batchfs, which describe the
// mount itself and change.
func (n node) isControl() bool { return n.kind > controlDir && n.kind < singles }

const (
	// firstShard leaves room for more single nodes, so that adding one does not change
	// every other inode number.
	firstShard = 32
	// maxID keeps inode numbers positive for programs that store them in a signed integer,
	// and far from the id that go-fuse reserves for itself.
	maxID = 1<<63 - 1
)

// numbers is the bijection between nodes and node ids: single nodes, then shards, epochs,
// the documents of epochs, and batch files, each block in mixed radix.
type numbers struct {
	shards, epochs, batches, forms uint64
	epochDirs, epochDocs, files    uint64 // first ids of their blocks
	end                            uint64 // the first unused id
}

// newNumbers lays out the ids of a tree of shards, epochs per shard, and at most batches
// batches per epoch.
func newNumbers(shards, epochs, batches int) (numbers, error) {
	if shards < 0 || epochs < 0 || batches < 0 {
		return numbers{}, fmt.Errorf("a tree of %d shards, %d epochs and %d batches", shards, epochs, batches)
	}
	n := numbers{shards: uint64(shards), epochs: uint64(epochs), batches: uint64(batches), forms: uint64(len(layout.Forms()))}
	room := true
	count := func(factors ...uint64) uint64 {
		product := uint64(1)
		for _, f := range factors {
			hi, lo := bits.Mul64(product, f)
			room = room && hi == 0 && lo <= maxID
			product = lo
		}
		return product
	}
	block := func(first, size uint64) uint64 {
		next, carry := bits.Add64(first, size, 0)
		room = room && carry == 0 && next <= maxID
		return next
	}
	n.epochDirs = block(firstShard, n.shards)
	n.epochDocs = block(n.epochDirs, count(n.shards, n.epochs))
	n.files = block(n.epochDocs, count(n.shards, n.epochs))
	n.end = block(n.files, count(n.shards, n.epochs, n.batches, n.forms))
	if !room {
		return numbers{}, fmt.Errorf("%d shards of %d epochs of %d batches are more files than there are inode numbers", shards, epochs, batches)
	}
	return n, nil
}

// id returns the number of an existing node.
func (n numbers) id(x node) uint64 {
	switch x.kind {
	case shardDir:
		return firstShard + uint64(x.key.Shard)
	case epochDir:
		return n.epochDirs + n.epoch(x.key)
	case epochDoc:
		return n.epochDocs + n.epoch(x.key)
	case batchFile:
		return n.files + (n.epoch(x.key)*n.batches+uint64(x.key.Batch))*n.forms + uint64(x.form)
	}
	return fuse.FUSE_ROOT_ID + uint64(x.kind)
}

func (n numbers) epoch(k engine.Key) uint64 { return uint64(k.Shard)*n.epochs + uint64(k.Epoch) }

// node is the inverse of id. It returns false for numbers without a node. The tree decides
// whether the node exists.
func (n numbers) node(id uint64) (node, bool) {
	switch {
	case id < fuse.FUSE_ROOT_ID || id >= n.end:
		return node{}, false
	case id < fuse.FUSE_ROOT_ID+uint64(singles):
		return node{kind: kind(id - fuse.FUSE_ROOT_ID)}, true
	case id < firstShard:
		return node{}, false
	case id < n.epochDirs:
		return node{kind: shardDir, key: engine.Key{Shard: int(id - firstShard)}}, true
	case id < n.epochDocs:
		return node{kind: epochDir, key: n.epochKey(id - n.epochDirs)}, true
	case id < n.files:
		return node{kind: epochDoc, key: n.epochKey(id - n.epochDocs)}, true
	}
	rest := id - n.files
	form := rest % n.forms
	rest /= n.forms
	key := n.epochKey(rest / n.batches)
	key.Batch = int(rest % n.batches)
	return node{kind: batchFile, key: key, form: layout.Form(form)}, true
}

func (n numbers) epochKey(i uint64) engine.Key {
	return engine.Key{Shard: int(i / n.epochs), Epoch: int(i % n.epochs)}
}

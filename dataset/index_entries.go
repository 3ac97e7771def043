package dataset

import (
	"crypto/sha256"
	"errors"
	"os"
	"strings"

	"github.com/batchfs/batchfs/internal/entries"
)

// ErrNoIndex means that there is no index file to keep entry points beside.
var ErrNoIndex = errors.New("no index is kept")

// OpenEntries opens the entry points that are stored beside the index; see [entries.Open]. The
// path and the index of the options are set here. The caller closes them.
func (d *Dataset) OpenEntries(o entries.Options) (*entries.Store, error) {
	if d.indexFile == "" {
		return nil, ErrNoIndex
	}
	o.Path, o.Index = entriesPath(d.indexFile), entriesIndex(d.Len(), d.indexed)
	return entries.Open(o)
}

func entriesPath(indexFile string) string {
	return strings.TrimSuffix(indexFile, indexExtension) + ".entries"
}

// entriesIndex binds entry points to the rows of an index with a digest.
func entriesIndex(rows int, digest string) entries.Index {
	return entries.Index{Rows: rows, Key: sha256.Sum256([]byte(digest))}
}

// carryEntries keeps the entry points of an earlier index, given by its table and digest, for one
// that is about to replace it. If that is interrupted, nothing is lost: either the earlier index and
// its entry points remain, or the same later index is made again.
func (p *opening) carryEntries(old *table, digest string, x *index) {
	path := entriesPath(p.indexFile)
	if p.indexFile == "" || digest == x.Digest {
		return
	}
	if _, err := os.Lstat(path); err != nil {
		return
	}
	before := old.byPath()
	err := entries.Carry(p.ctx, path, entriesIndex(old.rows(), digest), entriesIndex(x.table.rows(), x.Digest), func(row int) int {
		if k, known := before[x.table.path(row)]; known {
			return k
		}
		return -1
	})
	if err != nil && p.ctx.Err() == nil {
		p.Logger.Debug("stored entry points are of no use any more", "reason", err)
	}
}

package dataset

import (
	"crypto/sha256"
	"errors"
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
	o.Path, o.Index = entriesPath(d.indexFile), entriesIndex(d.Len(), d.digest)
	return entries.Open(o)
}

func entriesPath(indexFile string) string {
	return strings.TrimSuffix(indexFile, factsExtension) + ".entries"
}

// entriesIndex binds entry points to the rows of an index with a digest.
func entriesIndex(rows int, digest string) entries.Index {
	return entries.Index{Rows: rows, Key: sha256.Sum256([]byte(digest))}
}

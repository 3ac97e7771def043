package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/owned"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/store"
)

// ErrIndexAt: the index that Options.IndexAt names cannot be used.
var ErrIndexAt = errors.New("the index cannot be used")

// findIndex determines where the index is kept. It may be nowhere, which is an error only where the
// options rely on an index.
func (p *opening) findIndex() (err error) {
	dir := p.CacheDir
	if p.IndexAt != "" && !store.IsURL(p.IndexAt) {
		dir = p.IndexAt
	}
	relied := p.IndexAt != "" || p.Part.N > 0 || p.Merge
	switch {
	case dir == "" && relied:
		return fmt.Errorf("%w: there is no cache directory for it", ErrIndexAt)
	case dir == "":
		return nil
	}
	if strings.HasSuffix(dir, oldExtension) {
		return &option.Error{Field: "index at", Rule: "a directory, or a name that ends in " + factsExtension, Value: dir}
	}
	p.whole, err = indexPath(dir, p.src)
	if err != nil && !relied {
		p.keepNone(err)
		return nil
	}
	if p.indexFile = p.whole; p.Part.N > 0 {
		p.indexFile = PartPath(indexBase(p.whole), p.Part, factsExtension)
	}
	return err
}

// fetchIndex returns the index at a URL. A copy of it stays in the cache directory, with the time and
// size that say of which version it is.
func (p *opening) fetchIndex() (*index, error) {
	remote, name, err := store.Open(p.ctx, p.IndexAt, p.Store)
	if err != nil {
		return nil, err
	}
	defer remote.Close()
	if !strings.HasSuffix(name, factsExtension) {
		name = strings.TrimLeft(strings.TrimRight(name, "/")+"/"+indexName(p.src), "/")
	}
	url := remote.URL(name)
	o, err := remote.Stat(p.ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIndexAt, err)
	}
	sum := sha256.Sum256([]byte(p.Store.Endpoint + "\x00" + url))
	path := filepath.Join(filepath.Dir(p.whole), hex.EncodeToString(sum[:16])+".fetched")
	if info, err := os.Stat(path); err != nil || identityOf(o) != (Identity{info.Size(), info.ModTime().UnixNano()}) {
		if err := p.fetch(&objectAt{p.ctx, remote, o}, path); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrIndexAt, url, err)
		}
	}
	x, err := loadFacts(p.ctx, path, p.src)
	switch {
	case p.ctx.Err() != nil:
		return nil, p.ctx.Err()
	case err == nil && !x.listed:
		err = errors.New("of a part only, or not complete")
	case err == nil && x.Outside && !p.AllowOutside:
		err = ErrOutside
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrIndexAt, url, err)
	}
	return x, nil
}

// fetch copies an index to a file, after a look at whether it is one of this dataset.
func (p *opening) fetch(at *objectAt, path string) error {
	size := at.object.Size
	beginning := io.NewSectionReader(at, 0, min(size, 64<<10))
	if x, err := readFacts(p.ctx, beginning, size, p.src); x == nil {
		return err
	}
	return owned.Replace(path, func(f *os.File) error {
		blocks := int((size + scanBlock - 1) / scanBlock)
		err := parallel.Each(p.ctx, 8, blocks, nil, func(ctx context.Context, items iter.Seq[int]) error {
			b := make([]byte, scanBlock)
			for i := range items {
				offset := int64(i) * scanBlock
				b = b[:min(scanBlock, size-offset)]
				if _, err := at.store.ReadAt(ctx, at.object, b, offset); err != nil {
					return err
				}
				if _, err := f.WriteAt(b, offset); err != nil {
					return err
				}
				b = b[:cap(b)]
			}
			return nil
		})
		if err != nil {
			return err
		}
		return os.Chtimes(f.Name(), time.Time{}, time.Unix(0, identityOf(at.object).ModTime))
	})
}

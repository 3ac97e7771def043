package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/batchfs/batchfs/internal/owned"
	"github.com/batchfs/batchfs/internal/store"
)

// ErrIndexAt: the index that Options.IndexAt names cannot be used.
var ErrIndexAt = errors.New("the index cannot be used")

// ErrKeepIndex: an index that was asked for cannot be written.
var ErrKeepIndex = errors.New("the index cannot be kept")

// fetch returns the index at a URL. A copy of it stays in the cache directory, with the time and
// size that say of which version it is.
func (f *factFiles) fetch(ctx context.Context, at string, how *Options) (*index, error) {
	remote, name, err := store.Open(ctx, at, how.Store)
	if err != nil {
		return nil, err
	}
	defer remote.Close()
	if !strings.HasSuffix(name, factsExtension) {
		name = strings.TrimLeft(strings.TrimRight(name, "/")+"/"+indexName(f.src), "/")
	}
	url := remote.URL(name)
	o, err := remote.Stat(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIndexAt, err)
	}
	sum := sha256.Sum256([]byte(how.Store.Endpoint + "\x00" + url))
	path := filepath.Join(filepath.Dir(f.whole), hex.EncodeToString(sum[:16])+".fetched")
	if info, err := os.Stat(path); err != nil || identityOf(o) != (Identity{info.Size(), info.ModTime().UnixNano()}) {
		if err := fetchFacts(&objectAt{ctx, remote, o}, path, f.src); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrIndexAt, url, err)
		}
	}
	x, err := loadFacts(ctx, path, f.src)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil && !x.listed:
		err = errors.New("of a part only, or not complete")
	case err == nil && x.Outside && !how.AllowOutside:
		err = ErrOutside
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrIndexAt, url, err)
	}
	return x, nil
}

// fetchFacts copies an index to a file after checking that it belongs to the dataset.
func fetchFacts(at *objectAt, path string, src *source) error {
	size := at.object.Size
	beginning := io.NewSectionReader(at, 0, min(size, 64<<10))
	if x, err := readFacts(at.ctx, beginning, size, src); x == nil {
		return err
	}
	return owned.Replace(path, func(f *os.File) error {
		whole, to := io.NewSectionReader(at, 0, size), struct{ io.Writer }{f} // io.Copy has smaller pieces for files
		if _, err := io.CopyBuffer(to, whole, make([]byte, scanBlock)); err != nil {
			return err
		}
		return os.Chtimes(f.Name(), time.Time{}, time.Unix(0, identityOf(at.object).ModTime))
	})
}

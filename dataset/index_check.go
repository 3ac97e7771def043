package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// An index decides which files are opened and how much memory is allocated, so it is untrusted
// input: an index that others could have written is not read, its counts are limited by what a
// file of its size can hold, and its paths are validated like a manifest's.

// expansion is how many bytes one byte of a stored page can unpack to. Snappy, which compresses
// the index, copies at most 64 bytes for every 3 stored ones.
const expansion = 22

// smallPage is the unpacked size a page may have regardless of its stored size.
const smallPage = 64 << 10

var errCounts = errors.New("its counts are larger than a file of its size can hold")

// bounded checks the counts that memory is allocated for up front. A row takes at least 16
// bytes, its size and its time, in pages of their own.
func (f *facts) bounded(size int64) error {
	if f.Rows < 1 || f.PathBytes < 0 || int64(f.Rows) > (size*expansion+smallPage)/16 || f.PathBytes > size*expansion+smallPage {
		return errCounts
	}
	return nil
}

// checkPages walks the pages of all columns without decoding them.
func checkPages(r io.ReaderAt, size int64, file *parquet.File) error {
	var rows int64
	for _, group := range file.Metadata().RowGroups {
		if group.NumRows < 1 {
			return errCounts
		}
		if rows += group.NumRows; rows > file.NumRows() {
			return errCounts
		}
		for _, column := range group.Columns {
			if err := checkColumn(r, size, group.NumRows, &column.MetaData); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkColumn(r io.ReaderAt, size, rows int64, c *format.ColumnMetaData) error {
	at, values := c.DataPageOffset, int64(0)
	if c.DictionaryPageOffset > 0 {
		at = min(at, c.DictionaryPageOffset)
	}
	if c.NumValues != rows || at < 0 || c.TotalCompressedSize < 0 || c.TotalCompressedSize > size || at > size-c.TotalCompressedSize {
		return errCounts
	}
	for values < rows {
		h, length, err := pageHeader(r, at)
		if err != nil {
			return err
		}
		stored, unpacked := int64(h.CompressedPageSize), int64(h.UncompressedPageSize)
		if stored < 0 || stored > size-at || unpacked < 0 || unpacked > stored*expansion+smallPage {
			return errCounts
		}
		here := int64(h.DataPageHeader.V.NumValues) + int64(h.DataPageHeaderV2.V.NumValues)
		if here < 0 || here > rows-values || int64(h.DictionaryPageHeader.V.NumValues) > unpacked {
			return errCounts
		}
		values += here
		at += length + stored
	}
	return nil
}

// pageHeader reads the page header at an offset and returns it with its length.
func pageHeader(r io.ReaderAt, at int64) (*format.PageHeader, int64, error) {
	window := make([]byte, 64<<10)
	n, err := r.ReadAt(window, at)
	if err != nil && err != io.EOF {
		return nil, 0, err
	}
	window = window[:n]
	protocol := new(thrift.CompactProtocol)
	// Decode twice: first from the byte slice, where no length in the header can reach beyond
	// the slice, then, now that the header is trusted, from a reader that tells where it ends.
	if err := thrift.NewDecoder(protocol.NewReaderFromBytes(window)).Decode(new(format.PageHeader)); err != nil {
		return nil, 0, err
	}
	header, rest := new(format.PageHeader), bytes.NewReader(window)
	if err := thrift.NewDecoder(protocol.NewReader(rest)).Decode(header); err != nil {
		return nil, 0, err
	}
	return header, int64(n - rest.Len()), nil
}

// checkPath validates a stored path like a manifest's. Paths of a directory never leave it.
func (f *facts) checkPath(path string) error {
	clean, outside, err := cleanPath(path)
	switch {
	case err != nil:
		return err
	case clean != path:
		return fmt.Errorf("path %q is not as it would have been stored", path)
	case outside && !f.Outside:
		return fmt.Errorf("%q: %w", path, ErrOutside)
	}
	return nil
}

// checkDir is checkPath for a listed directory.
func (f *facts) checkDir(path string) error {
	if path == "" {
		return nil
	}
	return f.checkPath(path)
}

// ErrNotYours: others own an index or its directory, or may write to it, and so could decide
// which files are read.
var ErrNotYours = errors.New("others could have written it")

// yours rejects a file or directory that others own or may write to. Root may own it, because
// root can write anything anyway.
func yours(path string, info os.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: %w: its owner is not known", path, ErrNotYours)
	}
	if me := uint32(os.Geteuid()); st.Uid != me && st.Uid != 0 {
		return fmt.Errorf("%s: %w: it belongs to user %d, and you are %d (remove it, or set XDG_CACHE_HOME)", path, ErrNotYours, st.Uid, me)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%s: %w: its mode is %04o (chmod go-w %s)", path, ErrNotYours, mode, path)
	}
	return nil
}

// yourDirectory is yours for the parent directory of a path; a missing directory is fine.
func yourDirectory(path string) error {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return yours(dir, info)
}

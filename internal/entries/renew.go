package entries

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/batchfs/batchfs/internal/owned"
)

// Renew rewrites the file at path with what is known about a dataset's samples, if it was made for
// a much smaller or larger number of samples, or if much of it is useless. paths are the paths of
// the samples; their sizes and times do not matter. Without a file at path, Renew does nothing.
// Until it succeeds, it changes nothing. Entry points that other processes add during or after
// Renew, through a file that they already have open, are lost.
func Renew(ctx context.Context, path string, samples int, paths iter.Seq[string]) error {
	f, size, err := owned.Open(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	h, err := readHeader(f, size)
	if err != nil || !h.outgrown(size, samples) {
		return err
	}
	from := table{h, f}
	return owned.Replace(path, func(out *os.File) error {
		to := table{newHeader(h.rule, samples), out}
		if err := to.write(out); err != nil {
			return err
		}
		if _, err := out.Seek(0, io.SeekEnd); err != nil {
			return err
		}
		held, err := to.copyFrom(ctx, &from, paths, size-h.recordsAt())
		if err != nil {
			return err
		}
		to.most = max(to.most, 2*held)
		_, err = out.WriteAt(to.bytes(), 0)
		return err
	})
}

// copyFrom copies what is known about paths. It copies a limited number of bytes of records,
// because damaged slots may share records. It returns how many bytes there were.
func (t *table) copyFrom(
	ctx context.Context, from *table, paths iter.Seq[string], most int64,
) (held int64, err error) {
	notes, size := map[uint64]*note{}, 0
	var b Buffer
	for path := range paths {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		hash := hashOf(path)
		if there, _, err := t.look(hash, &b); err != nil {
			return 0, err
		} else if notes[hash] != nil || there != (slot{}) {
			continue // several samples may share a file
		}
		s, text := from.find(hash, &b)
		if text == nil {
			continue
		}
		if held += int64(s.recordSize()); held > most {
			break
		}
		notes[hash] = &note{s, bytes.Clone(text[factsSize:])}
		if size += notes[hash].size(); size > mostNotes {
			if err := t.save(t.file, notes); err != nil {
				return 0, err
			}
			notes, size = map[uint64]*note{}, 0
		}
	}
	return held, t.save(t.file, notes)
}

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

// Renew makes the file at path anew with what is known of a dataset's samples, if it was made for a
// much smaller or larger number of them, or much in it is of no use any more. paths are those of
// the samples: what has become of the sizes and times of their files does not matter. Without a
// file at path, Renew does nothing; until it succeeds, it changes nothing. What other processes
// that have the file open add to it during or after that is lost.
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

// copyFrom copies what is known of paths, up to a number of bytes of records, as damaged slots may
// share some. It returns how many bytes there were.
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
			continue // one file may be several samples
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

package annotation

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/go-faster/jx"
)

const (
	// maxEntry bounds the text of one annotation, in bytes.
	maxEntry   = 64 << 20
	streamRoom = 64 << 10
)

// A stream is a JSON file of any size, which is decoded while it is read.
type stream struct {
	io.Reader
	*places
	left   int   // bytes that may be read of what must be in memory as a whole
	failed error // of reading
}

var (
	errCutOff = errors.New("it ends too early")
	errLong   = fmt.Errorf("one entry is longer than %d MiB", maxEntry>>20)
)

func (s *stream) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, errLong
	}
	n, err := 0, s.ctx.Err()
	if err == nil {
		n, err = s.Reader.Read(p)
	}
	if err != io.EOF {
		s.failed = err
	}
	s.left -= n
	s.progress(int64(n), 0)
	return n, err
}

// readLists reads a JSON file with an object. It calls functions for the values of some of its
// lists, with their numbers, to read them from d. Errors are about the file, and say where.
func (p *places) readLists(path string, d *jsonReader, lists map[string]func(k int) error) error {
	if _, err := p.mark(whatItIs, path, ""); err != nil {
		return err
	}
	f, size, err := p.open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	p.progress(0, size)
	s := stream{Reader: f, places: p, left: maxEntry}
	if err = s.lists(d, streamRoom, lists); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return err
}

func (s *stream) lists(d *jsonReader, room int, lists map[string]func(k int) error) error {
	var entry error // in an entry of a list
	d.Decoder = *jx.Decode(s, room)
	err := d.Obj(func(_ *jx.Decoder, list string) error {
		defer func() { s.left = maxEntry }()
		take, wanted := lists[list]
		if !wanted {
			s.left = math.MaxInt // it is not kept in memory
			take = func(int) error { return d.Skip() }
		}
		if d.Next() != jx.Array {
			return d.Skip()
		}
		return d.array(func(k int) error {
			if d.bad = ""; wanted {
				s.left = maxEntry
			}
			err := take(k)
			if err != nil {
				entry = fmt.Errorf("%s[%d]: %w", list, k, plain(err))
			}
			return err
		})
	})
	return cmp.Or(s.failed, entry, plain(err))
}

// plain removes what the decoder adds to an error.
func plain(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCutOff
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}

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
	streamRoom = 1 << 20
)

// A stream is a JSON file of any size while it is read. It ends when places' context does.
type stream struct {
	io.Reader
	*places
	left int64 // bytes that may be read before what is kept of them is too long
	err  error // of the file
}

func (s *stream) Read(p []byte) (n int, err error) {
	if s.err = cmp.Or(s.err, s.ctx.Err()); s.err == nil && s.left <= 0 {
		s.err = fmt.Errorf("one entry is longer than %d MiB", maxEntry>>20)
	}
	if s.err != nil {
		return 0, s.err
	}
	if n, err = s.Reader.Read(p); err != nil && err != io.EOF {
		s.err = err
	}
	s.left -= int64(n)
	s.progress(int64(n), 0)
	return n, err
}

// readLists reads a JSON file, an object, and has functions take the values of some of its lists,
// with their numbers. A text is valid until the function returns. Errors are of the file, and say
// where.
func (p *places) readLists(path string, lists map[string]func(k int, text []byte) error) error {
	if _, err := p.mark(whatItIs, path, ""); err != nil {
		return err
	}
	f, size, err := p.open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	p.progress(0, size)
	s := &stream{Reader: f, places: p, left: maxEntry}
	var bad error // of an entry
	err = jx.Decode(s, streamRoom).ObjBytes(func(d *jx.Decoder, key []byte) error {
		list, k := string(key), 0
		take := lists[list]
		if take == nil || d.Next() != jx.Array {
			s.left = math.MaxInt64
			err := d.Skip()
			s.left = maxEntry
			return err
		}
		return d.Arr(func(d *jx.Decoder) error {
			s.left = maxEntry
			text, err := d.Raw()
			if err == nil {
				err = take(k, text)
			}
			if err != nil {
				bad = fmt.Errorf("%s[%d]: %w", list, k, plain(err))
			}
			k++
			return err
		})
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", path, cmp.Or(s.err, bad, plain(err)))
	}
	return err
}

// plain is an error of a decoder without where the decoder was.
func plain(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends too early")
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}

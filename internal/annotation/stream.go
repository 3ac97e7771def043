package annotation

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// maxEntry bounds the text of one annotation, in bytes.
	maxEntry   = 64 << 20
	streamRoom = 1 << 20
)

// A stream is a JSON file of any size: an object with lists, whose values are read one by one.
type stream struct {
	io.Reader
	*places
	buf        []byte
	head, tail int   // bytes of the file in buf that were not examined yet
	before     int64 // bytes of the file before buf
}

var errCutOff = errors.New("it ends too early")

// readLists reads a JSON file with an object. It calls functions for the values of some of its
// lists, with their numbers. A text is valid until the function returns. Errors are about the file,
// and say where.
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
	s := stream{Reader: f, places: p, buf: make([]byte, streamRoom)}
	if err = s.lists(lists); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return err
}

func (s *stream) lists(lists map[string]func(k int, text []byte) error) error {
	if err := s.expect('{', "an object"); err != nil {
		return err
	}
	if c, err := s.peek(); err != nil || c == '}' {
		return err
	}
	for {
		key, err := s.value(true)
		if err == nil && key[0] != '"' {
			err = s.wrong("a key")
		}
		if err != nil {
			return err
		}
		list := string(key[1 : len(key)-1])
		if err := s.expect(':', "a colon"); err != nil {
			return err
		}
		c, err := s.peek()
		if take := lists[list]; err == nil && c == '[' && take != nil {
			err = s.list(func(k int, text []byte) error {
				err := take(k, text)
				if err != nil {
					err = fmt.Errorf("%s[%d]: %w", list, k, err)
				}
				return err
			})
		} else if err == nil {
			_, err = s.value(false)
		}
		if more, e := s.more(err, '}'); e != nil || !more {
			return e
		}
	}
}

// list calls take for the values of the list at the current position.
func (s *stream) list(take func(k int, text []byte) error) error {
	s.head++
	if c, err := s.peek(); err != nil || c == ']' {
		s.head++
		return err
	}
	for k := 0; ; k++ {
		text, err := s.value(true)
		if err == nil {
			err = take(k, text)
		}
		if more, e := s.more(err, ']'); e != nil || !more {
			return e
		}
	}
}

// more says whether a comma follows, rather than the end.
func (s *stream) more(err error, end byte) (bool, error) {
	if err != nil {
		return false, err
	}
	c, err := s.peek()
	if err == nil && c != ',' && c != end {
		err = s.wrong("a comma, or the end")
	}
	s.head++
	return c == ',', err
}

func (s *stream) expect(wanted byte, what string) error {
	c, err := s.peek()
	if err == nil && c != wanted {
		err = s.wrong(what)
	}
	s.head++
	return err
}

func (s *stream) wrong(expected string) error {
	return fmt.Errorf("byte %d: there should be %s", s.before+int64(s.head), expected)
}

// peek is the next byte that is not blank.
func (s *stream) peek() (byte, error) {
	for {
		for s.head < s.tail {
			switch c := s.buf[s.head]; c {
			case ' ', '\n', '\t', '\r':
				s.head++
			default:
				return c, nil
			}
		}
		if err := s.fill(s.head); err != nil {
			return 0, err
		}
	}
}

// fill reads more of the file, and keeps the bytes from an offset on.
func (s *stream) fill(keep int) error {
	if keep > 0 {
		copy(s.buf, s.buf[keep:s.tail])
		s.before, s.head, s.tail = s.before+int64(keep), s.head-keep, s.tail-keep
	}
	if s.tail == len(s.buf) {
		if len(s.buf) >= maxEntry {
			return fmt.Errorf("byte %d: one entry is longer than %d MiB", s.before, maxEntry>>20)
		}
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
	}
	if err := s.ctx.Err(); err != nil {
		return err
	}
	n, err := s.Read(s.buf[s.tail:])
	if s.tail += n; n > 0 {
		s.progress(int64(n), 0)
		return nil
	}
	if err == nil || err == io.EOF {
		err = errCutOff
	}
	return err
}

// value returns the text of the next value, which is valid until the next call; nil if it is not
// wanted. It only looks for the value's end; the text is checked when it is parsed.
func (s *stream) value(wanted bool) ([]byte, error) {
	first, err := s.peek()
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte([]byte(",:]}"), first) >= 0 {
		return nil, s.wrong("a value")
	}
	i, depth, quoted := s.head, 0, false
	for {
		if i, depth, quoted = s.scan(i, depth, quoted); depth < 0 {
			text := s.buf[s.head:i]
			s.head = i
			return text, nil
		}
		if wanted {
			i -= s.head
			err = s.fill(s.head)
			i += s.head
		} else {
			skipped := min(i, s.tail)
			s.head = skipped
			err = s.fill(skipped)
			i -= skipped
		}
		if err != nil {
			return nil, err
		}
	}
}

// nesting marks the bytes that matter within a list or an object.
var nesting = [256]bool{'"': true, '{': true, '[': true, '}': true, ']': true}

// scan looks for the end of a value from offset i on, in the bytes read so far. depth is how many
// lists and objects are open at i, and quoted says whether i is in a string; at the end, depth is
// -1. Brackets are counted, not matched.
func (s *stream) scan(i, depth int, quoted bool) (int, int, bool) {
	for i < s.tail {
		if quoted {
			for i < s.tail && s.buf[i] != '"' && s.buf[i] != '\\' {
				i++
			}
			switch {
			case i >= s.tail:
				return i, depth, true
			case s.buf[i] == '\\':
				i += 2 // possibly beyond the bytes read so far
				continue
			}
			i++
			if quoted = false; depth == 0 {
				return i, -1, false
			}
			continue
		}
		for depth > 0 && i < s.tail && !nesting[s.buf[i]] {
			i++
		}
		if i >= s.tail {
			break
		}
		switch s.buf[i] {
		case '"':
			quoted = true
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, -1, false
			} else if depth < 0 { // after a number
				return i, -1, false
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i, -1, false
			}
		}
		i++
	}
	return i, depth, quoted
}

// plain removes the decoder's position from its error.
func plain(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCutOff
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}

package dataset

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// Header is what an image's first bytes, and perhaps its last, say about it.
type Header struct {
	Format        string // such as "jpeg"
	Height, Width int    // pixels, as stored
	Orientation   uint8  // EXIF 1..8; 5 and above exchange height and width
	// Tail is how many bytes of the file's end the Prober must also see before it knows all of
	// the above; 0: none.
	Tail int
}

// Prober reads a header from the beginning of a file of size bytes; if head is that long, it is
// the whole file. An error that wraps [ErrShort] asks for a longer head; any other error is the
// reason why the file cannot be read. A Header with a Tail asks for that many of the file's
// last bytes: the Prober is then called once more with the same head and that tail, which is
// otherwise nil. It is called concurrently, and must not keep head or tail.
type Prober func(head, tail []byte, size int64) (Header, error)

const (
	firstProbe = 8 << 10  // bytes; enough for the header of most files
	probeStep  = 4        // growth while the prober asks for more
	maxProbe   = 64 << 20 // bytes; a header must lie within them
	keepProbe  = 1 << 20  // bytes of buffer kept between files
)

var errNoHeader = fmt.Errorf("no image header in the first %d MiB", maxProbe>>20)

// probe reads as much of an open file as the prober needs. It returns buf, possibly grown, for
// the next file.
func (s *storage) probe(f *file, prober Prober, buf []byte, stop <-chan struct{}) (Header, []byte, error) {
	if f.unit == 0 {
		// Disable readahead: the rest of the file is not needed.
		s.system.advise(f.fd, unix.FADV_RANDOM)
	}
	have, size := 0, f.id.Size
	for want := int64(firstProbe); ; want *= probeStep {
		want = min(want, size, maxProbe)
		buf = growTo(buf, have, f.room(int(want)))
		n, err := s.fill(f, buf[have:], int64(have), int(want)-have, stop)
		have += n
		if err != nil {
			return Header{}, buf, &readError{err}
		}
		if int64(have) < want {
			return Header{}, buf, &readError{ErrChanged}
		}
		h, err := prober(buf[:have], nil, size)
		if err == nil && h.Tail > 0 {
			h, buf, err = s.probeTail(f, prober, h.Tail, buf, have, stop)
		}
		if err == nil {
			return h, buf, checkHeader(h)
		}
		if !errors.Is(err, ErrShort) || want == size {
			return Header{}, buf, err
		}
		if want == maxProbe {
			return Header{}, buf, errNoHeader
		}
	}
}

// probeTail calls the prober again with the file's last n bytes. They are read into buf, behind
// the have bytes of the file's head.
func (s *storage) probeTail(f *file, prober Prober, n int, buf []byte, have int, stop <-chan struct{}) (Header, []byte, error) {
	size := f.id.Size
	from := size - min(int64(n), size)
	if f.unit > 0 {
		from &^= int64(f.unit) - 1
	}
	at, length := f.room(have), int(size-from)
	buf = growTo(buf, have, at+f.room(length))
	got, err := s.fill(f, buf[at:], from, length, stop)
	if err == nil && got < length {
		err = ErrChanged
	}
	if err != nil {
		return Header{}, buf, &readError{err}
	}
	tail := buf[at : at+length]
	h, err := prober(buf[:have], tail[max(0, length-n):], size)
	return h, buf, err
}

// growTo returns a buffer of at least n bytes that starts with the first have bytes of buf.
func growTo(buf []byte, have, n int) []byte {
	if n <= len(buf) {
		return buf
	}
	grown := make([]byte, n)
	copy(grown, buf[:have])
	return grown
}

func checkHeader(h Header) error {
	if h.Format == "" || h.Height < 1 || h.Width < 1 || h.Height > math.MaxInt32 || h.Width > math.MaxInt32 {
		return fmt.Errorf("no usable header: format %q, %dx%d", h.Format, h.Height, h.Width)
	}
	return nil
}

// readError is a failure of the file system rather than of the content, so it may be gone next
// time.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

func (e *readError) Unwrap() error { return e.err }

// failed distinguishes a failure to read from a Prober's verdict.
func failed(err error) bool {
	var e *readError
	return errors.As(err, &e)
}

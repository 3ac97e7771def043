package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/archive"
)

// Header is what the first bytes of an image say about it, and the last bytes if needed.
type Header struct {
	Format        string // jpeg, png, bmp, pnm, webp or packed
	Height, Width int    // pixels, as stored
	Orientation   uint8  // EXIF 1..8; 5 and above exchange height and width
	// Tail is how many bytes of the file's end the Prober must also see before it knows all of
	// the above; 0: none.
	Tail int
}

// Prober reads a header from the beginning of a file of size bytes; if head is that long, it is the
// whole file. An error that wraps [ErrShort] asks for a longer head; any other error says why the
// file cannot be read. A Header with a Tail asks for that many of the file's last bytes: the Prober
// is then called again with the same head and that tail, which is nil in the first call. It is
// called concurrently, and must not retain head or tail.
type Prober func(head, tail []byte, size int64) (Header, error)

const (
	firstProbe = 8 << 10   // bytes; enough for the header of most files
	probeStep  = 4         // growth while the prober asks for more
	maxProbe   = 64 << 20  // bytes; a header must lie within them
	keepProbe  = 256 << 10 // bytes of buffer that a worker keeps between files
)

// probe reads as much of an open file as the prober needs. bad is the prober's verdict on the
// file's content; err is a failure to read it, which may be gone next time.
func (w *scanWorker) probe(f *file) (h Header, bad, err error) {
	if f.coded() {
		return w.probeCoded(f)
	}
	if f.fd >= 0 && !f.direct() {
		// Disable readahead: the rest of the file is not needed.
		w.storage.system.advise(f.fd, unix.FADV_RANDOM)
	}
	have, size := 0, f.id.Size
	for want := int64(firstProbe); ; want *= probeStep {
		want = min(want, maxProbe)
		next := min(f.room(f.skew+int(want)), f.skew+int(size))
		if err := w.grow(have, f.room(next)); err != nil {
			return h, nil, err
		}
		if _, err := w.storage.fill(w.ctx, f, w.buf[have:], int64(have), next-have); err != nil {
			return h, nil, err
		}
		have = next
		h, bad = w.Prober(w.buf[f.skew:have], nil, size)
		if bad == nil && h.Tail > 0 {
			h, bad, err = w.probeTail(f, h.Tail, have)
		}
		switch {
		case err != nil:
			return h, nil, err
		case bad == nil:
			return h, h.check(), nil
		case !errors.Is(bad, ErrShort) || have == f.skew+int(size):
			return h, bad, nil
		case want == maxProbe:
			return h, fmt.Errorf("no image header in the first %d MiB", maxProbe>>20), nil
		}
	}
}

// check refuses values that no image has.
func (h *Header) check() error {
	if number, _ := formatNumber(h.Format); number == 0 || h.Height < 1 || h.Width < 1 || h.Height > math.MaxInt32 || h.Width > math.MaxInt32 {
		return fmt.Errorf("no usable header: format %q, %dx%d", h.Format, h.Height, h.Width)
	}
	return nil
}

// block holds the bytes unpacked last. A Parquet page, for example, holds many samples.
type block struct {
	place archive.Place
	whole Identity // of the file
	data  []byte
}

// probeCoded unpacks a sample and passes all of it to the prober.
func (w *scanWorker) probeCoded(f *file) (h Header, bad, err error) {
	data, bad, err := w.unpack(f)
	if bad == nil && err == nil {
		h, bad = w.Prober.inMemory(data, f.id.Size)
	}
	return h, bad, err
}

// inMemory reads a sample's header from data, its beginning, without reading more.
func (p Prober) inMemory(data []byte, size int64) (Header, error) {
	h, err := p(data, nil, size)
	switch {
	case err != nil:
		return h, err
	case h.Tail > 0 && int64(len(data)) < size:
		return h, ErrShort
	case h.Tail > 0:
		h, err = p(data, data[len(data)-min(h.Tail, len(data)):], size)
	}
	return h, cmp.Or(err, h.check())
}

// unpack returns the sample's bytes, which are valid until the next call.
func (w *scanWorker) unpack(f *file) (data []byte, bad, err error) {
	p, b := *f.place, &w.block
	if p.Block > 0 { // unpack the whole block, for other samples
		p.From, p.Size = 0, p.Block
	}
	if b.data == nil || b.place != p || b.whole != f.whole {
		n, room := f.skew+int(p.Length), int(p.Room())
		_ = w.memory.take(-int64(cap(b.data))) // giving memory back cannot fail
		b.data = nil
		if err := w.take(room); err != nil {
			return nil, nil, err
		}
		stored := f.has(f.at, n)
		if stored == nil {
			if err := w.grow(0, n); err != nil {
				return nil, nil, err
			}
			if _, err := w.storage.fill(w.ctx, f, w.buf, 0, n); err != nil {
				return nil, nil, err
			}
			stored = w.buf[:n]
		}
		if data, bad = p.Unpack(make([]byte, 0, room), stored[f.skew:]); bad != nil {
			return nil, bad, nil
		}
		b.place, b.whole, b.data = p, f.whole, data
	}
	if f.place.Block > 0 {
		return b.data[f.place.From:][:f.place.Size], nil, nil
	}
	return b.data, nil, nil
}

// probeTail calls the prober again with the sample's last n bytes. They are read into the buffer,
// behind the have bytes of the file's beginning.
func (w *scanWorker) probeTail(f *file, n, have int) (h Header, bad, err error) {
	size := f.skew + int(f.id.Size)
	from, at := f.floor(size-min(n, int(f.id.Size))), f.room(have)
	end := at + size - from
	if err := w.grow(have, at+f.room(size-from)); err != nil {
		return h, nil, err
	}
	if _, err := w.storage.fill(w.ctx, f, w.buf[at:], int64(from), size-from); err != nil {
		return h, nil, err
	}
	h, bad = w.Prober(w.buf[f.skew:have], w.buf[max(at, end-n):end], f.id.Size)
	return h, bad, nil
}

// grow makes the buffer at least n bytes long; it keeps the first have bytes.
func (w *scanWorker) grow(have, n int) error {
	if n <= len(w.buf) {
		return nil
	}
	if err := w.take(n - len(w.buf)); err != nil {
		return err
	}
	w.buf = append(make([]byte, 0, n), w.buf[:have]...)[:n]
	return nil
}

package decode

import (
	"bytes"
	"fmt"
)

// Remainder says what a packed image keeps.
type Remainder uint8

const (
	// ForMemory keeps the pixels as Decoder delivers them; the file cannot be restored.
	ForMemory Remainder = iota
	// ForFile keeps the pixels as stored, and the rest of the file, for Unpack.
	ForFile
)

// Pack returns the packed form of an image, a whole file, in new memory. Decoding it gives exactly
// the pixels of the original. The error is ErrNoPackedForm for images that cannot be packed this
// way, and otherwise the error of decoding the image.
func (d *Decoder) Pack(data []byte, h Header, keep Remainder) ([]byte, error) {
	found, err := d.open(data, h)
	if err != nil {
		return nil, err
	}
	to := make([]byte, PackedBound(found, int64(len(data)), keep))
	n, err := d.packTo(to, data, found, keep)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(to[:n]), nil
}

// PackTo is Pack into the caller's memory, at least PackedBound bytes. The packed image is the
// first n of them; the others are scratch memory.
func (d *Decoder) PackTo(to, data []byte, h Header, keep Remainder) (n int, err error) {
	found, err := d.open(data, h)
	if err != nil {
		return 0, err
	}
	if err := packsInto(to, data, found, keep); err != nil {
		return 0, err
	}
	return d.packTo(to, data, found, keep)
}

// PackedBound is how many bytes of memory PackTo needs for an image whose file has size bytes. That
// is more than the packed image will have. It is higher still if the header did not come from
// ReadHeader.
func PackedBound(h Header, size int64, keep Remainder) int64 {
	n := int64(packedHead + packedSlack)
	if h.Format == JPEG {
		n += tiersMost(h.Width, h.Height, size)
	} else {
		n += losslessMost(h.Width, h.Height, h.planes(keep))
	}
	if keep == ForFile {
		n += losslessSizes + 1024 + size + size/256 // a remainder that does not shrink
	}
	return n
}

// planes is the maximal number of planes in an image's lossless form.
func (h Header) planes(keep Remainder) int {
	const most = 8 // RGB and alpha with 16 bits
	switch {
	case keep == ForMemory:
		return 3
	case h.stored == 0:
		return most
	}
	return max(3, int(h.stored)) // pixels may be made as RGB, and then packed as gray
}

// PackNeeds is like Needs for packing an image whose file has size bytes: the additional memory
// besides the destination, here including the Go heap.
func (o Options) PackNeeds(h Header, size int64, keep Remainder) int64 {
	n := max(o.Needs(h), ValueNeeds(h)) // stored pixels may be read in another way
	if h.Format == JPEG && keep == ForFile {
		return n + restoringNeeds(h, size+tiersMost(h.Width, h.Height, size))
	}
	n += 4<<10 + 32*int64(losslessPadded(h.Width)) // rows, with their residuals
	if keep == ForFile {
		n += 1<<20 + 3*size // the rest of the file, and deflating it
	}
	return n
}

func packsInto(to, data []byte, found Header, keep Remainder) error {
	if n := PackedBound(found, int64(len(data)), keep); int64(len(to)) < n {
		return fmt.Errorf("%w: packing takes %d bytes, not %d", ErrDestination, n, len(to))
	}
	return nil
}

// packTo packs an image into memory that suffices.
func (d *Decoder) packTo(to, data []byte, h Header, keep Remainder) (n int, err error) {
	p := h.packed(kindLossless)
	room, body, remainder := to[packedHead:], 0, [][]byte(nil)
	switch {
	case h.Format == Packed:
		err = fmt.Errorf("%w: of what is packed", ErrNoPackedForm)
	case h.Format == JPEG:
		p.kind = kindCoefficients
		if body, err = d.state.packTiers(room, data, h); err == nil && keep == ForFile {
			remainder, err = jpegRemainder(data, room[:body], h.Width, h.Height)
		}
	case h.Format == PNG:
		body, remainder, err = d.packPNG(room, data, h, keep)
	case keep == ForMemory:
		body, err = d.packPixels(room, data, h)
	case h.Format == BMP || h.Format == PNM:
		body, remainder, err = d.packRaw(room, data, h)
	default:
		err = fmt.Errorf("%w: that can be undone, of %s", ErrNoPackedForm, h.Format)
	}
	if err != nil {
		return 0, err
	}
	n = packedHead + body
	for _, part := range remainder {
		n += len(part)
	}
	if n > len(to) {
		return 0, fmt.Errorf("%w: of a file with too much else in it", ErrNoPackedForm)
	}
	return p.seal(to, body, remainder...), nil
}

// A Packing is where to pack, for memory, an image that is being decoded, in less time than
// afterwards.
type Packing struct {
	To   []byte // at least PackedBound bytes, the first of which become the packed image
	Size int    // bytes of the packed image, if Err is nil
	Err  error  // as PackTo returns it
}

// startPacking makes the codec pack a JPEG while decoding it.
func (d *Decoder) startPacking(t *Task, v *view) {
	d.state.room = nil
	if t.Pack == nil || v.Header.Format != JPEG || d.state.kernel < Portable || d.state.to != 0 {
		return
	}
	if packsInto(t.Pack.To, t.Data, v.Header, ForMemory) == nil {
		d.state.room = t.Pack.To[packedHead:]
	}
}

// endPacking packs an image that was not packed during decoding.
func (d *Decoder) endPacking(t *Task, v *view, err error) {
	p, room := t.Pack, d.state.room
	if d.state.room = nil; p == nil {
		return
	}
	p.Size, p.Err = 0, err
	switch {
	case err != nil:
	case room != nil:
		body := 0
		if body, p.Err = endTiers(&d.state, room); p.Err == nil {
			p.Size = v.Header.packed(kindCoefficients).seal(p.To, body)
		}
	case d.state.to != 0:
		p.Err = ErrPart
	default:
		p.Size, p.Err = d.packDecoded(t, v)
	}
}

// packDecoded packs an image from its decoded pixels, if they are complete.
func (d *Decoder) packDecoded(t *Task, v *view) (n int, err error) {
	h := v.Header
	if err := packsInto(t.Pack.To, t.Data, h, ForMemory); err != nil {
		return 0, err
	}
	whole := v.Region == Region{W: h.Width, H: h.Height} && v.Orientation == 1 && v.Color == RGB
	if !whole || h.Format == JPEG || h.Format == Packed || h.Format == PNG && pngPixels(t.Data).pixels == pixelsIndex {
		return d.packTo(t.Pack.To, t.Data, h, ForMemory)
	}
	body, err := d.packImage(t.Pack.To[packedHead:], t.To, 3)
	if err != nil {
		return 0, err
	}
	return h.packed(kindLossless).seal(t.Pack.To, body), nil
}

// packed describes the packed form of an image.
func (h Header) packed(kind uint8) *packed {
	return &packed{
		kind: kind, orientation: h.Orientation, original: h.Format,
		width: h.Width, height: h.Height,
	}
}

// Unpack returns the original of an image that was packed for a file. It is the same file for JPEG,
// BMP and PNM; for PNG, it has the same stored pixels and the same other chunks, and is not
// interlaced. The error is ErrNoPackedForm for an image that was packed for memory, and ErrCorrupt
// or ErrFormat for bytes that are not a packed image.
func Unpack(packed []byte) (original []byte, err error) {
	if Sniff(packed) != Packed {
		return nil, unsupported("it is not a packed image")
	}
	p, err := openPacked(packed)
	if err == nil {
		err = p.verifyFor(packed, Region{W: p.width, H: p.height}, 1)
	}
	if err == nil {
		err = Options{}.allows(Header{Width: p.width, Height: p.height})
	}
	switch {
	case err != nil:
		return nil, err
	case len(p.remainder) == 0:
		return nil, fmt.Errorf("%w: it was packed for memory alone", ErrNoPackedForm)
	}
	if p.kind == kindCoefficients {
		return p.restoreJPEG()
	}
	return p.unpackLossless()
}

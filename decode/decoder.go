package decode

import "fmt"

// DefaultMaxPixels is the limit if Options does not set one.
const DefaultMaxPixels = 1 << 28

// Options say what pixels a Decoder produces.
type Options struct {
	Color             Color
	IgnoreOrientation bool  // leave the pixels as stored
	MaxPixels         int64 // larger images are ErrTooLarge; 0: DefaultMaxPixels

	Kernel Kernel // for decoding, and for all later work on the pixels
}

// allows returns an ErrTooLarge error if h has more pixels than MaxPixels.
func (o Options) allows(h Header) error {
	if o.MaxPixels <= 0 {
		o.MaxPixels = DefaultMaxPixels
	}
	if h.pixels() > o.MaxPixels {
		return fmt.Errorf("%w: %dx%d pixels, at most %d are allowed", ErrTooLarge, h.Width, h.Height, o.MaxPixels)
	}
	return nil
}

// orientation returns the orientation to apply to h.
func (o Options) orientation(h Header) uint8 {
	if o.IgnoreOrientation || h.Orientation < 1 || h.Orientation > 8 {
		return 1
	}
	return h.Orientation
}

// Image is memory to decode into: rows of 8-bit pixels, channels interleaved, Stride bytes from
// one row to the next. It always belongs to the caller; bytes between rows are not touched.
type Image struct {
	Pix           []byte
	Stride        int
	Height, Width int // upright
}

// Region is a rectangle of the stored image, before orientation, in pixels at the scale of
// decoding (see Header.At).
type Region struct{ X, Y, W, H int }

func (r Region) in(w, h int) bool {
	return r.X >= 0 && r.Y >= 0 && r.W >= 1 && r.H >= 1 && r.W <= w && r.H <= h && r.X <= w-r.W && r.Y <= h-r.H
}

// view is what to decode of an image: a region at a scale of 1/Scale, in a colour, with an
// orientation applied.
type view struct {
	Header      Header
	Region      Region
	Scale       int // 1; also 2, 4 or 8 if the header says that it reduces
	Color       Color
	Orientation uint8 // to apply; 1 for none, and always 1 in formats without orientation
	Verified    bool  // see Task
}

// size returns the upright region's size.
func (v *view) size() (height, width int) {
	if transposes(v.Orientation) {
		return v.Region.W, v.Region.H
	}
	return v.Region.H, v.Region.W
}

// check verifies that the region lies in the image and that dst has exactly its size and enough
// memory.
func (v *view) check(dst Image) error {
	if !v.Header.scales(v.Scale) {
		return fmt.Errorf("%w: %s cannot be decoded at 1/%d", ErrDestination, v.Header.Format, v.Scale)
	}
	r := v.Region
	w, h := v.Header.At(v.Scale)
	height, width := v.size()
	row, pix := int64(width)*int64(v.Color.Channels()), int64(len(dst.Pix))
	switch {
	case !r.in(w, h):
		return fmt.Errorf("%w: region %+v of an image of %dx%d", ErrDestination, r, w, h)
	case dst.Height != height || dst.Width != width || int64(dst.Stride) < row || pix < row || (pix-row)/int64(dst.Stride) < int64(height-1):
		return fmt.Errorf("%w: %dx%d in %d bytes, in rows of %d, for an image of %dx%d", ErrDestination,
			dst.Width, dst.Height, pix, dst.Stride, width, height)
	}
	return nil
}

// scales reports whether the image can be decoded at 1/scale.
func (h Header) scales(scale int) bool {
	return scale == 1 || h.Reduces() && (scale == 2 || scale == 4 || scale == 8)
}

// A codec decodes a view of an image of its format. The destination must fit the view, and the
// header must belong to the data. It writes only the view's pixels.
type codec func(k *codecState, dst Image, data []byte, v view) error

// codecs holds one codec per format, nil if there is none.
type codecs [numFormats]codec

// Decoder decodes one image at a time; each worker has its own. It owns the scratch memory,
// outside the Go heap, that its codecs keep between images.
type Decoder struct {
	options Options
	codecs  codecs // nil once it is closed
	state   codecState
	paired  bool // the last DecodePair decoded this and the other image in one call; for tests
}

// NewDecoder returns a Decoder with this build's codecs.
func NewDecoder(o Options) *Decoder {
	d := &Decoder{options: o, codecs: nativeCodecs, state: codecState{kernel: chosen(o.Kernel)}}
	if o.Kernel == Pure {
		d.codecs = goCodecs
	}
	return d
}

// Close frees the scratch memory. Decoding afterwards is an error.
func (d *Decoder) Close() {
	d.Trim()
	d.codecs = codecs{}
}

// ScratchBytes is the memory held between images, outside the Go heap.
func (d *Decoder) ScratchBytes() int64 { return d.state.size() }

// Trim frees the scratch memory; the next image that needs some allocates it again.
func (d *Decoder) Trim() { d.state.free() }

// TakeJPEGs counts the JPEGs decoded since the call before.
func (d *Decoder) TakeJPEGs() JPEGs { return d.state.takeJPEGs() }

// Needs is an upper estimate, in bytes, of the additional memory outside the Go heap that
// decoding an image like h would take now: what its codec allocates and frees again, and the
// scratch memory beyond what is already held.
func (d *Decoder) Needs(h Header) int64 { return h.Scratch + lacks(&d.state, h, scratch(h)) }

// Needs is Decoder.Needs for one that holds nothing.
func (o Options) Needs(h Header) int64 { return h.Scratch + scratch(h) }

// Decode decodes a whole image, upright unless Options say otherwise, into dst, which must have
// the size that h.Size returns. data must be a whole file; if it is not the image that h
// describes, the error is ErrMismatch. After an error the contents of dst are undefined, but
// nothing is written outside dst's rows.
func (d *Decoder) Decode(dst Image, data []byte, h Header) error {
	return d.DecodeRegion(dst, data, h, Region{0, 0, h.Width, h.Height}, 1)
}

// DecodeRegion decodes a region of the stored image at a scale of 1/scale: 1, or if h reduces, also
// 2, 4 and 8. dst must have the upright region's size. The pixels are the same as if the whole
// image were decoded at that scale and cropped.
func (d *Decoder) DecodeRegion(dst Image, data []byte, h Header, r Region, scale int) error {
	return d.DecodeTask(Task{To: dst, Data: data, Header: h, Region: r, Scale: scale})
}

// DecodeTask is DecodeRegion with the arguments in a Task.
func (d *Decoder) DecodeTask(t Task) error {
	v, err := d.view(&t)
	if err == nil {
		d.startPacking(&t, &v)
		err = d.codecs[t.Header.Format](&d.state, t.To, t.Data, v)
	}
	d.endPacking(&t, &v, err)
	return err
}

// A Task is an image to decode, as DecodeRegion takes it.
type Task struct {
	To     Image
	Data   []byte
	Header Header
	Region Region
	Scale  int

	// Verified says that the caller has already decoded these very bytes without this flag. The
	// checksum of a packed image is then not computed again.
	Verified bool

	// Pack says where to pack the whole image, too; nil: nowhere. It affects neither the pixels nor
	// the error. Given entry points are then not used, since the whole file is read.
	Pack *Packing
}

// view checks a task, and returns the view for its codec.
func (d *Decoder) view(t *Task) (v view, err error) {
	h := t.Header
	found, err := d.open(t.Data, h)
	if err != nil {
		return v, err
	}
	v = view{Header: h, Region: t.Region, Scale: t.Scale, Color: d.options.Color, Orientation: d.options.orientation(h), Verified: t.Verified}
	if err := v.check(t.To); err != nil {
		return v, err
	}
	if !found.scales(t.Scale) {
		err = fmt.Errorf("%w: it holds no coefficients of a JPEG", ErrMismatch)
	}
	v.Header = found
	return v, err
}

// open returns the header of a file. The format must be supported, and the header must be h.
func (d *Decoder) open(data []byte, h Header) (found Header, err error) {
	if err := d.options.allows(h); err != nil {
		return h, err
	}
	if h.Format >= numFormats || d.codecs[h.Format] == nil {
		return h, unsupported("there is no decoder for %s, or it is closed", h.Format)
	}
	return check(data, h)
}

// Pairs reports whether DecodePair may be faster for an image like h.
func (o Options) Pairs(h Header) bool { return h.Format == JPEG && chosen(o.Kernel) >= Portable }

// DecodePair does the same as DecodeTask of each decoder with its task, including errors and entry
// points. It takes less time if both tasks are sound baseline JPEGs without given entry points.
func DecodePair(by *[2]*Decoder, tasks *[2]Task) (errs [2]error) {
	var views [2]view
	pair := true
	for i, d := range by {
		v, err := d.view(&tasks[i])
		views[i] = v
		pair = pair && err == nil && v.Header.Format == JPEG
		if pair {
			d.startPacking(&tasks[i], &views[i])
		}
	}
	pair = pair && by[0].state.pair(&by[1].state, tasks, &views)
	by[0].paired, by[1].paired = pair, pair
	if pair {
		for i, d := range by {
			d.endPacking(&tasks[i], &views[i], nil)
		}
		return errs
	}
	for i, d := range by {
		errs[i] = d.DecodeTask(tasks[i])
	}
	return errs
}

// check returns the header of an image, which must be h. Reading it again costs little compared to
// decoding, and ensures for all codecs that the file is still the one that was indexed.
func check(data []byte, h Header) (found Header, err error) {
	if format := Sniff(data); format != h.Format {
		return Header{}, fmt.Errorf("%w: it is %s, not %s", ErrMismatch, format, h.Format)
	}
	if found, err = ReadHeader(data, true); err != nil {
		return Header{}, err
	}
	if found.Width != h.Width || found.Height != h.Height || found.Orientation != h.Orientation {
		return Header{}, fmt.Errorf("%w: it is %dx%d with orientation %d, not %dx%d with %d", ErrMismatch,
			found.Width, found.Height, found.Orientation, h.Width, h.Height, h.Orientation)
	}
	return found, nil
}

package decode_test

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	. "github.com/batchfs/batchfs/decode"
)

// native reports whether this build has the decoders in C.
var native = !strings.HasSuffix(Version(), " image")

func needsC(t testing.TB) {
	t.Helper()
	if !native {
		t.Skip("this build has only Go's decoders")
	}
}

// kernelsOf are the kernels that decode a format in different ways. The first is the default; the
// last is Go's.
func kernelsOf(f Format) (all []Kernel) {
	switch {
	case !native:
	case f == JPEG || f == Packed:
		all = slices.Clone(Kernels())
		slices.Reverse(all)
	case f == PNG:
		all = []Kernel{Fastest, Portable, LibJPEG}
	default:
		all = []Kernel{Fastest}
	}
	return append(all, Pure)
}

// canvas is memory to decode into, with guard bytes around every row.
type canvas struct {
	Image
	all       []byte
	lead, row int
}

const guard = 0xa5

func newCanvas(w, h, channels int) *canvas {
	const slack = 5
	c := &canvas{lead: 64, row: w * channels}
	stride := c.row + slack
	c.all = bytes.Repeat([]byte{guard}, 2*c.lead+stride*h-slack)
	c.Image = Image{Pix: c.all[c.lead : c.lead+stride*h-slack], Stride: stride, Height: h, Width: w}
	return c
}

func isGuard(b []byte) bool { return bytes.Count(b, []byte{guard}) == len(b) }

// pixels returns the rows, and fails if the bytes between them were changed.
func (c *canvas) pixels(t testing.TB, name fmt.Stringer) []byte {
	out := make([]byte, 0, c.row*c.Height)
	kept := isGuard(c.all[:c.lead]) && isGuard(c.all[len(c.all)-c.lead:])
	for y := range c.Height {
		line := c.Pix[y*c.Stride:]
		out = append(out, line[:c.row]...)
		if y < c.Height-1 {
			kept = kept && isGuard(line[c.row:c.Stride])
		}
	}
	if !kept {
		t.Helper()
		t.Fatalf("%s: wrote outside the rows", name)
	}
	return out
}

// An ask is a request for the pixels of an image.
type ask struct {
	file
	head     Header
	region   Region
	scale    int
	rule     EntryRule // of entry points: those at, or new ones
	at       []EntryPoint
	part     [2]int64 // of the file; zeros: all of it
	pack     *Packing
	verified bool
}

// whole asks for all of an image, whose header may be damaged.
func whole(f file) ask {
	h := headerOf(f.data)
	return ask{file: f, head: h, region: Region{W: h.Width, H: h.Height}, scale: 1}
}

// at returns the same for the whole image at 1/scale.
func (a ask) reduced(scale int) ask {
	a.scale = scale
	a.region = Region{}
	a.region.W, a.region.H = a.head.At(scale)
	return a
}

// some returns the same request for a random part of the region.
func (a ask) some(r *rand.Rand) ask {
	a.region = anyRegion(r, a.region.W, a.region.H)
	return a
}

// any returns the same request for a random region and scale.
func (a ask) any(r *rand.Rand) ask {
	if a.head.Reduces() {
		a = a.reduced(1 << max(0, r.IntN(7)-3))
	}
	if r.IntN(3) == 0 {
		return a
	}
	return a.some(r)
}

func anyRegion(r *rand.Rand, w, h int) Region {
	x, y := r.IntN(w), r.IntN(h)
	return Region{X: x, Y: y, W: 1 + r.IntN(w-x), H: 1 + r.IntN(h-y)}
}

func headerOf(data []byte) Header {
	h, _ := ReadHeader(data, true)
	return h
}

func pixelsOf(h Header) int { return h.Width * h.Height }

func (a ask) String() string {
	return fmt.Sprintf("%s, %+v of %dx%d at 1/%d, entry points by %d", a.name, a.region, a.head.Width, a.head.Height, a.scale, a.rule)
}

// An answer is the complete result of an ask.
type answer struct {
	err    error
	pix    []byte // nil if there is an error
	made   []EntryPoint
	result EntryResult
	jpegs  JPEGs
}

// like reports whether both have the same pixels or the same kind of error.
func (x answer) like(y answer) bool {
	return kindOf(x.err) == kindOf(y.err) && bytes.Equal(x.pix, y.pix)
}

// same reports whether they have the same pixels or the same error.
func (x answer) same(y answer) bool {
	return fmt.Sprint(x.err) == fmt.Sprint(y.err) && bytes.Equal(x.pix, y.pix)
}

func (x answer) equal(y answer) bool {
	return x.same(y) && slices.Equal(x.made, y.made) && x.result == y.result && x.jpegs == y.jpegs
}

func (x answer) String() string {
	return fmt.Sprintf("%v, %d bytes, %d entry points (%d), %+v", x.err, len(x.pix), len(x.made), x.result, x.jpegs)
}

var sentinels = []error{ErrFormat, ErrCorrupt, ErrTooLarge, ErrMismatch, ErrMemory, ErrPart, ErrDestination}

// kindOf returns the sentinel that an error wraps.
func kindOf(err error) error {
	i := slices.IndexFunc(sentinels, func(kind error) bool { return errors.Is(err, kind) })
	if i < 0 {
		return err
	}
	return sentinels[i]
}

// explained checks that an error has a kind that speaks of the image, and a reason.
func explained(t testing.TB, name any, err error) {
	kind := kindOf(err)
	if kind == err || kind == ErrPart || kind == ErrDestination {
		t.Errorf("%s: an error of no kind: %v", name, err)
	} else if len(err.Error()) <= len(kind.Error())+2 {
		t.Errorf("%s: no reason in %q", name, err)
	}
}

// A coder is a Decoder that knows its options.
type coder struct {
	*Decoder
	o Options
}

func newCoder(t testing.TB, o Options) coder {
	d := coder{NewDecoder(o), o}
	t.Cleanup(d.Close)
	return d
}

func (d coder) task(a ask) (*canvas, Task) {
	upright := Header{Width: a.region.W, Height: a.region.H, Orientation: a.head.Orientation}
	height, width := upright.Size(d.o.IgnoreOrientation)
	c := newCanvas(width, height, d.o.Color.Channels())
	d.SetEntryPoints(a.rule, a.at)
	d.SetPart(a.part[0], a.part[1])
	return c, Task{To: c.Image, Data: a.data, Header: a.head, Region: a.region, Scale: a.scale, Pack: a.pack, Verified: a.verified}
}

// decode also checks that no more memory is held than was announced, whatever was held before.
func (d coder) decode(t testing.TB, a ask) answer {
	c, task := d.task(a)
	held, all, more := d.ScratchBytes(), d.o.Needs(a.head), d.Needs(a.head)
	if more > all || held == 0 && more < all {
		t.Errorf("%s: %d bytes more are needed than %d, of %d", a, more, held, all)
	}
	err := d.DecodeTask(task)
	if now := d.ScratchBytes(); now > held+more-a.head.Scratch && a.pack == nil {
		t.Errorf("%s: %d bytes are held, and %d more than %d were announced", a, now, more-a.head.Scratch, held)
	}
	return d.answer(t, a, c, err)
}

func (d coder) answer(t testing.TB, a ask, c *canvas, err error) answer {
	made, result := d.TakeEntryPoints()
	x := answer{err, c.pixels(t, a), slices.Clone(made), result, d.TakeJPEGs()}
	if err != nil {
		x.pix = nil
	}
	return x
}

// pixels decodes an image that must be sound.
func (d coder) pixels(t testing.TB, a ask) []byte {
	x := d.decode(t, a)
	if x.err != nil {
		t.Helper()
		t.Fatalf("%s, %+v: %v", a, d.o, x.err)
	}
	return x.pix
}

// coders has a coder for each kind of options.
type coders struct {
	t   testing.TB
	all map[Options]coder
}

func newCoders(t testing.TB) *coders { return &coders{t, map[Options]coder{}} }

func (c *coders) with(o Options) coder {
	if _, ok := c.all[o]; !ok {
		c.all[o] = newCoder(c.t, o)
	}
	return c.all[o]
}

// everywhere decodes with all kernels, which must give the same result; for a JPEG, also with entry
// points that are made and then used. Go's decoders may round JPEGs differently, and accept other
// damage. It returns the result, and for how many kernels our own JPEG decoder was used.
func (c *coders) everywhere(a ask, o Options) (first answer, ours int) {
	t := c.t
	var made []EntryPoint
	for i, k := range kernelsOf(a.head.Format) {
		o.Kernel = k
		d := c.with(o)
		got := d.decode(t, a)
		if got.err != nil {
			explained(t, a, got.err)
		}
		ours += int(got.jpegs.Baseline)
		switch exact := !ofJPEG(a.data) && a.head.Format != WebP; {
		case i == 0:
			first = got
		case k == Pure && (!exact || first.err != nil || got.err != nil):
		case !got.like(first), k != Pure && a.head.Format == JPEG && !got.same(first):
			t.Errorf("%s, %+v: %s; by the first kernel %s; or other pixels", a, o, got, first)
		}
		if got.result != EntriesMade || a.at != nil {
			continue
		}
		if made == nil {
			made = got.made
		}
		used := a
		used.at = got.made
		if again := d.decode(t, used); !slices.Equal(made, got.made) || !again.same(got) || len(used.at) > 0 && again.result != EntriesUsed {
			t.Errorf("%s, %+v: %s by entry points that were made; %s without, or other entry points", a, o, again, got)
		}
	}
	return first, ours
}

// compare fails if pixels differ from the wanted ones by more than allowed.
func compare(t testing.TB, name string, got, want []uint8, worst int, mean float64) {
	if len(got) != len(want) {
		t.Helper()
		t.Fatalf("%s: %d bytes of pixels, want %d", name, len(got), len(want))
	}
	at, off, sum := 0, 0, 0
	for i := range got {
		d := max(int(got[i])-int(want[i]), int(want[i])-int(got[i]))
		if sum += d; d > off {
			at, off = i, d
		}
	}
	if m := float64(sum) / float64(len(got)); off > worst || m > mean {
		t.Helper()
		t.Errorf("%s: byte %d is %d, want %d; off by %d at worst and %.3f in the mean, allowed are %d and %.3f",
			name, at, got[at], want[at], off, m, worst, mean)
	}
}

func cropped(pix []byte, w, c int, r Region) (out []byte) {
	for y := r.Y; y < r.Y+r.H; y++ {
		out = append(out, pix[(y*w+r.X)*c:][:r.W*c]...)
	}
	return out
}

// atEnd returns the last n bytes of memory.
func atEnd(memory []byte, n int) []byte { return memory[len(memory)-n:] }

// copyTo copies data to the end of memory.
func copyTo(memory, data []byte) []byte {
	to := atEnd(memory, len(data))
	copy(to, data)
	return to
}

// flipped inverts some bits of a copy.
func flipped(r *rand.Rand, data []byte) []byte {
	data = bytes.Clone(data)
	for range 1 + r.IntN(3) {
		data[r.IntN(len(data))] ^= 1 << r.IntN(8)
	}
	return data
}

// busy is noise.
func busy(x, y int) byte { return byte(x*89 + y*57 + x*y*31) }

// busyBytes returns a function that fills memory with random bytes.
func busyBytes(a, b uint64) func(to []byte) []byte {
	r := rand.New(rand.NewPCG(a, b))
	return func(to []byte) []byte {
		for i := range to {
			to[i] = uint8(r.Uint32())
		}
		return to
	}
}

func encodedPNG(m image.Image) []byte {
	var to bytes.Buffer
	if err := png.Encode(&to, m); err != nil {
		panic(err)
	}
	return to.Bytes()
}

func encodedJPEG(m image.Image, quality int) []byte {
	var to bytes.Buffer
	if err := jpeg.Encode(&to, m, &jpeg.Options{Quality: quality}); err != nil {
		panic(err)
	}
	return to.Bytes()
}

package pixels

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/testkit"
)

// picture is smooth, so that a JPEG decoded at a smaller scale moves no pixel visibly.
func picture(w, h int) image.Image {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			v := uint8(128 + 100*math.Sin(float64(x)/40+1)*math.Cos(float64(y)/47))
			m.SetRGBA(x, y, color.RGBA{v, 255 - v, uint8(128 + 100*math.Sin(float64(x+2*y)/60)), 255})
		}
	}
	return m
}

// files are the same picture as PNG and as JPEG in every orientation.
func files(t testing.TB, w, h int) map[string][]byte {
	t.Helper()
	var p, j bytes.Buffer
	testkit.Must(t, png.Encode(&p, picture(w, h)))
	testkit.Must(t, jpeg.Encode(&j, picture(w, h), &jpeg.Options{Quality: 95}))
	all := map[string][]byte{"png": p.Bytes()}
	for o := 1; o <= 8; o++ {
		f := testkit.Forger{Out: []byte{0xff, 0xd8}}
		f.Segment(0xe1, testkit.Orientation(o))
		all[fmt.Sprintf("jpeg-%d", o)] = append(f.Out, j.Bytes()[2:]...)
	}
	return all
}

func modes() (all []resample.Options) {
	for m := resample.None; m <= resample.RandomResizedCrop; m++ {
		o := resample.Options{
			Mode: m, Height: 50, Width: 40, ResizeTo: 60, CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio, Seed: 7,
		}
		all = append(all, o)
		o.Height, o.Width = 12, 15 // JPEGs are decoded at a smaller scale
		all = append(all, o)
	}
	return all
}

func header(t testing.TB, data []byte) decode.Header {
	t.Helper()
	h, err := decode.ReadHeader(data, true)
	testkit.Must(t, err)
	return h
}

// run makes an image's pixels in memory of exactly the size that the job asked for. Less is an
// error.
func run(t testing.TB, o Options, data []byte, tr resample.Transform, sink resample.Sink) []byte {
	t.Helper()
	d := decode.NewDecoder(o.Options)
	defer d.Close()
	h, w := tr.Size()
	stride := w*o.Color.Channels() + 5
	pix := bytes.Repeat([]byte{0xa5}, h*stride)
	to := Target{Sink: sink}
	if sink == nil {
		to = Target{Pix: pix, Stride: stride}
	}
	j := o.Plan(header(t, data), tr, to)
	if j.Memory > 0 {
		for _, n := range []int{0, j.Memory - 1} {
			if err := j.Run(d, data, make([]byte, n)); err == nil {
				t.Errorf("%d bytes suffice where %d are needed", n, j.Memory)
			}
		}
	}
	testkit.Must(t, j.Run(d, data, make([]byte, j.Memory)))
	return pix
}

// all is a sink of packed rows.
type all struct{ pix []byte }

func (a *all) PutRow(_ int, row []byte) { a.pix = append(a.pix, row...) }

// whole makes the pixels the long way: the whole image is decoded, and resized from there.
func whole(t testing.TB, o Options, data []byte, tr resample.Transform) []byte {
	t.Helper()
	head := header(t, data)
	height, width := head.Size(o.IgnoreOrientation)
	c := o.Color.Channels()
	d := decode.NewDecoder(o.Options)
	defer d.Close()
	src := resample.Image{Pix: make([]byte, height*width*c), Stride: width * c, Height: height, Width: width, Channels: c}
	testkit.Must(t, d.Decode(decode.Image{Pix: src.Pix, Stride: src.Stride, Height: height, Width: width}, data, head))
	var out all
	testkit.Must(t, resample.Resize(&out, src, tr, make([]byte, resample.ScratchBytes(tr, c)), decode.Fastest))
	return out.pix
}

// TestLikeTheWholeImage: decoding only what a transform needs gives the bytes that decoding all
// of the image gives, through a sink and in memory, in every mode and orientation. Where a JPEG
// is decoded smaller first, the bytes are close to those, and no pixel moves.
func TestLikeTheWholeImage(t *testing.T) {
	scaled := 0
	for name, data := range files(t, 203, 151) {
		for _, mode := range modes() {
			for _, o := range []Options{
				{}, {FullJPEGs: true}, {Options: decode.Options{Color: decode.Gray, IgnoreOrientation: true}}, {Options: decode.Options{Kernel: resample.Kernels()[0]}},
			} {
				h, w := header(t, data).Size(o.IgnoreOrientation)
				tr := mode.Choose(1, 2, h, w)
				want := whole(t, o, data, tr)
				var sink all
				run(t, o, data, tr, &sink)
				tolerance := 0
				if tr.Scale() > 1 && name != "png" && !o.FullJPEGs {
					scaled++
					tolerance = 12
				}
				if d := difference(sink.pix, want); d > tolerance {
					t.Errorf("%s, %v, %+v: %d levels from the whole image", name, mode.Mode, o, d)
				}
				if rows := run(t, o, data, tr, nil); !bytes.Equal(packed(t, rows, tr, o), sink.pix) {
					t.Errorf("%s, %v, %+v: other pixels in memory than through a sink", name, mode.Mode, o)
				}
			}
		}
	}
	if scaled == 0 {
		t.Error("no JPEG was decoded at a smaller scale")
	}
}

// TestScaledDecode: on photographs at the limit of the rule, the result of a smaller decode is
// close to that of filtering everything.
func TestScaledDecode(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, gen.Write(t.Context(), gen.Options{Dir: filepath.Join(dir, "photos"), Images: 2, Kind: gen.Photo, Seed: 1}))
	names, err := filepath.Glob(filepath.Join(dir, "photos", "*.jpg"))
	if err != nil || len(names) != 2 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		testkit.Must(t, err)
		for scale, size := range map[int][2]int{2: {93, 125}, 4: {46, 62}, 8: {23, 31}} {
			tr := resample.Options{Mode: resample.Stretch, Height: size[0], Width: size[1]}.Choose(0, 0, 375, 500)
			if tr.Scale() != scale {
				t.Fatalf("%v is decoded at 1/%d, not 1/%d", size, tr.Scale(), scale)
			}
			var got, want all
			run(t, Options{}, data, tr, &got)
			run(t, Options{FullJPEGs: true}, data, tr, &want)
			sum := 0
			for i := range got.pix {
				sum += difference(got.pix[i:i+1], want.pix[i:i+1])
			}
			mean, most := float64(sum)/float64(len(got.pix)), difference(got.pix, want.pix)
			if mean > 2.2 || most > 25 || mean == 0 {
				t.Errorf("at 1/%d: %.2f levels on average, %d at most", scale, mean, most)
			}
		}
	}
}

// TestScaledGeometry: in a smooth picture a decode at a scale could only move pixels, and it does
// not: for every orientation, and for sides that are not a multiple of the scale.
func TestScaledGeometry(t *testing.T) {
	for name, data := range files(t, 249, 281) {
		h, w := header(t, data).Size(false)
		for _, size := range []int{13, 29, 61} {
			tr := resample.Options{Mode: resample.Stretch, Height: size, Width: size}.Choose(0, 0, h, w)
			var got, want all
			o := decode.Options{Color: decode.Gray}
			run(t, Options{Options: o}, data, tr, &got)
			run(t, Options{Options: o, FullJPEGs: true}, data, tr, &want)
			if most := difference(got.pix, want.pix); most > 2 {
				t.Errorf("%s at 1/%d: %d levels", name, tr.Scale(), most)
			}
		}
	}
}

// packed removes the bytes between rows, which must not have been written.
func packed(t testing.TB, pix []byte, tr resample.Transform, o Options) (out []byte) {
	t.Helper()
	h, w := tr.Size()
	n := w * o.Color.Channels()
	for y := range h {
		row := pix[y*(n+5):][:n+5]
		out = append(out, row[:n]...)
		if !bytes.Equal(row[n:], []byte{0xa5, 0xa5, 0xa5, 0xa5, 0xa5}) {
			t.Fatalf("bytes after row %d were written", y)
		}
	}
	return out
}

func difference(a, b []byte) (most int) {
	if len(a) != len(b) {
		return 256
	}
	for i := range a {
		most = max(most, int(a[i])-int(b[i]), int(b[i])-int(a[i]))
	}
	return most
}

// source notes what it is asked for.
type source struct {
	region decode.Region
	scale  int
}

func (s *source) DecodeRegion(_ decode.Image, _ []byte, _ decode.Header, r decode.Region, scale int) error {
	s.region, s.scale = r, scale
	return nil
}

// TestNoMoreThanNeeded: a source is asked for the part that the transform needs, at the
// smallest scale that suffices, and memory is needed only if the result is not what it decodes.
func TestNoMoreThanNeeded(t *testing.T) {
	head := decode.Header{Format: decode.JPEG, Width: 400, Height: 300, Orientation: 6}
	crop := func(step float64) resample.Transform { // 60 rows and 80 columns of the upright image, from row 100 and column 20
		y, x := int(60/step), int(80/step)
		return resample.Transform{
			Y: resample.Axis{Start: 100, Step: step, Lo: 100, Hi: 160, N: y}, X: resample.Axis{Start: 20, Step: step, Lo: 20, Hi: 100, N: x},
		}
	}
	memory := make([]byte, 1<<16)
	for name, v := range map[string]struct {
		o      Options
		step   float64
		pix    bool
		want   source
		memory int
	}{
		"a copy in memory":      {Options{}, 1, true, source{decode.Region{X: 100, Y: 200, W: 60, H: 80}, 1}, 0},
		"a copy through a sink": {Options{}, 1, false, source{decode.Region{X: 100, Y: 200, W: 60, H: 80}, 1}, 60 * 80 * 3},
		"scaled":                {Options{}, 4, true, source{decode.Region{X: 50, Y: 100, W: 30, H: 40}, 2}, -1},
		"scaled, in full":       {Options{FullJPEGs: true}, 4, true, source{decode.Region{X: 100, Y: 200, W: 60, H: 80}, 1}, -1},
		"stored":                {Options{Options: decode.Options{IgnoreOrientation: true}}, 4, true, source{decode.Region{X: 10, Y: 50, W: 40, H: 30}, 2}, -1},
	} {
		to := Target{Sink: new(all)}
		if v.pix {
			to.Pix, to.Stride = make([]byte, 60*80*3), 80*3
		}
		j := v.o.Plan(head, crop(v.step), to)
		var got source
		if err := j.Run(&got, nil, memory[:j.Memory]); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got != v.want || got.region != j.Region || v.memory >= 0 && j.Memory != v.memory {
			t.Errorf("%s: %+v with %d bytes", name, got, j.Memory)
		}
	}
}

// TestNoAllocation: planning and making pixels for a sink allocates nothing.
func TestNoAllocation(t *testing.T) {
	if d := decode.Version(); len(d) > 2 && d[:2] == "go" {
		t.Skip("Go's decoders allocate")
	}
	data := files(t, 203, 151)
	d := decode.NewDecoder(decode.Options{})
	defer d.Close()
	memory, pix := make([]byte, 1<<20), make([]byte, 203*151*3)
	sink := new(nowhere)
	for _, mode := range modes() {
		for _, name := range []string{"png", "jpeg-6"} {
			head := header(t, data[name])
			h, w := head.Size(false)
			if n := testing.AllocsPerRun(5, func() {
				tr := mode.Choose(1, 2, h, w)
				oh, ow := tr.Size()
				j := Options{}.Plan(head, tr, Target{Sink: sink, Pix: pix[:oh*ow*3], Stride: ow * 3})
				testkit.Must(t, j.Run(d, data[name], memory))
			}); n != 0 {
				t.Errorf("%v, %s: %v allocations", mode.Mode, name, n)
			}
		}
	}
}

type nowhere struct{}

func (*nowhere) PutRow(int, []byte) {}

package target

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/decode/resample"
)

// whole shows all of an image, as it is.
func whole(height, width int) View {
	return View{Transform: resample.Options{Mode: resample.None}.Choose(0, 0, height, width), Height: height, Width: width, Orientation: 1}
}

func shown(r Rules, v View, boxes ...Box) (list []Box) {
	for _, b := range boxes {
		if s, ok := r.Show(b, &v); ok && (r.Max == 0 || len(list) < r.Max) {
			list = append(list, s)
		}
	}
	return list
}

// TestOrientations: a box around a pixel is around the same pixel in every orientation. The oracle
// is what EXIF says: on which side of the scene the stored image's row 0 and column 0 are.
func TestOrientations(t *testing.T) {
	const height, width = 5, 7
	sides := map[uint8][2]string{ // of row 0 and of column 0
		1: {"top", "left"}, 2: {"top", "right"}, 3: {"bottom", "right"}, 4: {"bottom", "left"},
		5: {"left", "top"}, 6: {"right", "top"}, 7: {"right", "bottom"}, 8: {"left", "bottom"},
	}
	for orientation, side := range sides {
		h, w := height, width
		if orientation >= 5 {
			h, w = width, height
		}
		for row := range height {
			for column := range width {
				at := map[string]int{side[0]: row, side[1]: column}
				x, y := at["left"], at["top"]
				if n, ok := at["right"]; ok {
					x = w - 1 - n
				}
				if n, ok := at["bottom"]; ok {
					y = h - 1 - n
				}
				v := whole(h, w)
				v.Height, v.Width, v.Orientation = height, width, orientation
				got := shown(Rules{}, v, Box{float32(column), float32(row), float32(column + 1), float32(row + 1)})
				want := Box{float32(x), float32(y), float32(x + 1), float32(y + 1)}
				if len(got) != 1 || got[0] != want {
					t.Fatalf("orientation %d: pixel %d, %d is at %v, not %v", orientation, row, column, got, want)
				}
			}
		}
	}
}

// TestRules: which boxes are kept, and how they are written.
func TestRules(t *testing.T) {
	inside, half, out := Box{2, 2, 6, 4}, Box{-2, 0, 2, 4}, Box{-9, 0, 0, 4}
	flat := Box{3, 3, 3, 9}
	for _, c := range []struct {
		name  string
		rules Rules
		in    []Box
		want  []Box
	}{
		{"clipped", Rules{}, []Box{inside, half, out, flat}, []Box{inside, {0, 0, 2, 4}}},
		{"not clipped", Rules{NoClip: true}, []Box{half, out}, []Box{half}},
		{"as large as it must be", Rules{MinArea: 8}, []Box{inside, half}, []Box{inside, {0, 0, 2, 4}}},
		{"too small", Rules{MinArea: 8.5}, []Box{inside, half}, nil},
		{"half is visible", Rules{MinVisibility: 0.5}, []Box{half}, []Box{{0, 0, 2, 4}}},
		{"not enough is visible", Rules{MinVisibility: 0.51}, []Box{half, inside}, []Box{inside}},
		{"width and height", Rules{Format: XYWH}, []Box{inside}, []Box{{2, 2, 4, 2}}},
		{"centre", Rules{Format: CXCYWH}, []Box{inside}, []Box{{4, 3, 4, 2}}},
		{"the first ones that are kept", Rules{Max: 2}, []Box{out, inside, half, inside}, []Box{inside, {0, 0, 2, 4}}},
		{"no numbers", Rules{}, []Box{{float32(math.NaN()), 0, 1, 1}, {0, float32(math.NaN()), 1, 1}}, nil},
	} {
		if got := shown(c.rules, whole(10, 10), c.in...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
}

// TestKeypoints: keypoints are mirrored as boxes are, and zero where they are not shown.
func TestKeypoints(t *testing.T) {
	v := whole(10, 10)
	v.Transform.Flip = true
	for in, want := range map[Keypoint]Keypoint{
		{1, 2, 2}: {9, 2, 2}, {10, 0, 1}: {0, 0, 1}, {11, 2, 2}: {}, {3, -1, 2}: {}, {3, 4, 0}: {}, {float32(math.NaN()), 1, 2}: {},
	} {
		if got := v.Point(in); got != want {
			t.Errorf("%v is %v, not %v", in, got, want)
		}
	}
	for n := range 1000 { // the far corner is exactly that of the result, at every size
		h, w := 1+n, 1+n*7%640
		v := View{Transform: resample.Options{Mode: resample.Stretch, Height: 46, Width: 15}.Choose(0, 0, h, w), Height: h, Width: w, Orientation: 1}
		if got := v.Point(Keypoint{float32(w), float32(h), 2}); got != (Keypoint{15, 46, 2}) {
			t.Errorf("the corner of %dx%d is at %v", h, w, got)
		}
	}
}

// FuzzShow: whatever the numbers are, shown boxes lie within the view, with ordered corners; a box
// of a mirrored view is the mirrored box.
func FuzzShow(f *testing.F) {
	f.Add(float32(1), float32(2), float32(3), float32(4), uint8(0), uint16(5), uint16(6), uint8(1))
	f.Add(float32(-1e30), float32(2), float32(1e30), float32(4), uint8(5), uint16(1), uint16(60000), uint8(6))
	f.Fuzz(func(t *testing.T, x0, y0, x1, y1 float32, mode uint8, h, w uint16, orientation uint8) {
		height, width, orientation := 1+int(h), 1+int(w), 1+orientation%8
		o := resample.Options{Mode: resample.Mode(mode % 6), Height: 50, Width: 70, ResizeTo: 80, CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio}
		v := View{Height: height, Width: width, Orientation: orientation}
		if orientation >= 5 {
			height, width = width, height
		}
		v.Transform = o.Choose(int(mode), 1, height, width)
		outH, outW := v.Transform.Size()
		straight := shown(Rules{}, v, Box{x0, y0, x1, y1})
		v.Transform.Flip = true
		mirrored := shown(Rules{}, v, Box{x0, y0, x1, y1})
		for _, b := range slices.Concat(straight, mirrored) {
			if !(b[0] >= 0 && b[0] <= b[2] && b[2] <= float32(outW) && b[1] >= 0 && b[1] <= b[3] && b[3] <= float32(outH)) {
				t.Fatalf("%v is not in %dx%d", b, outH, outW)
			}
		}
		if len(straight) == 1 && len(mirrored) == 1 {
			a, b, w := straight[0], mirrored[0], float64(outW)
			if math.Abs(w-float64(a[2])-float64(b[0])) > w*1e-6 || math.Abs(w-float64(a[0])-float64(b[2])) > w*1e-6 || a[1] != b[1] || a[3] != b[3] {
				t.Fatalf("%v is mirrored to %v, of %d", a, b, outW)
			}
		}
	})
}

// torchvisionBox is what torchvision's transforms of boxes do, step by step: a resize multiplies by
// the quotient of the sizes, a crop subtracts its corner, a flip takes x to the width less x, and
// clamping ends at the canvas.
type torchvisionBox struct{ x0, y0, x1, y1, height, width float64 }

func (b *torchvisionBox) resize(height, width int) {
	y, x := float64(height)/b.height, float64(width)/b.width
	*b = torchvisionBox{b.x0 * x, b.y0 * y, b.x1 * x, b.y1 * y, float64(height), float64(width)}
}

func (b *torchvisionBox) crop(top, left, height, width int) {
	y, x := float64(top), float64(left)
	*b = torchvisionBox{b.x0 - x, b.y0 - y, b.x1 - x, b.y1 - y, float64(height), float64(width)}
}

func (b *torchvisionBox) flip() { b.x0, b.x1 = b.width-b.x1, b.width-b.x0 }

func (b *torchvisionBox) clamp() {
	b.x0, b.x1 = min(max(b.x0, 0), b.width), min(max(b.x1, 0), b.width)
	b.y0, b.y1 = min(max(b.y0, 0), b.height), min(max(b.y1, 0), b.height)
}

// TestAsTorchvision: boxes are where torchvision's transforms put them, to within half a pixel
// where it rounds sizes differently, and far closer elsewhere. Exactly the boxes without area there
// are dropped.
func TestAsTorchvision(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 4))
	for n := range 30_000 {
		h, w := 1+r.IntN(700), 1+r.IntN(700)
		o := resample.Options{
			Mode: resample.Mode(n % 6), Height: 1 + r.IntN(300), Width: 1 + r.IntN(300), Flip: 0.5,
			CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio, Seed: uint64(n),
		}
		o.ResizeTo = max(o.Height, o.Width) + r.IntN(60)
		tr := o.Choose(n, int64(n), h, w)
		oh, ow := tr.Size()
		in := Box{
			float32(r.Float64()*1.4-0.2) * float32(w), float32(r.Float64()*1.4-0.2) * float32(h),
			float32(r.Float64()*1.4-0.2) * float32(w), float32(r.Float64()*1.4-0.2) * float32(h),
		}
		in = Box{min(in[0], in[2]), min(in[1], in[3]), max(in[0], in[2]), max(in[1], in[3])}
		want := torchvisionBox{float64(in[0]), float64(in[1]), float64(in[2]), float64(in[3]), float64(h), float64(w)}
		switch o.Mode {
		case resample.NotSmaller: // a resize that covers the size, and a centre crop
			rh, rw := o.Height, int(math.Round(float64(w)*float64(o.Height)/float64(h)))
			if w*o.Height <= h*o.Width {
				rh, rw = int(math.Round(float64(h)*float64(o.Width)/float64(w))), o.Width
			}
			want.resize(rh, rw)
			want.crop((rh-oh+1)/2, (rw-ow+1)/2, oh, ow)
		case resample.CenterCrop:
			rh, rw := o.ResizeTo, int(float64(o.ResizeTo*w)/float64(h))
			if w < h {
				rh, rw = int(float64(o.ResizeTo*h)/float64(w)), o.ResizeTo
			}
			want.resize(rh, rw)
			want.crop(int(math.RoundToEven(float64(rh-oh)/2)), int(math.RoundToEven(float64(rw-ow)/2)), oh, ow)
		case resample.RandomResizedCrop:
			want.crop(int(tr.Crop[0]), int(tr.Crop[1]), int(tr.Crop[2]), int(tr.Crop[3]))
			want.resize(oh, ow)
		default:
			want.resize(oh, ow)
		}
		if tr.Flip {
			want.flip()
		}
		if want.clamp(); oh < 1 || ow < 1 {
			continue
		}
		got := shown(Rules{}, View{tr, h, w, 1}, in)
		if len(got) == 0 {
			if want.x1-want.x0 > 1e-3 && want.y1-want.y0 > 1e-3 {
				t.Fatalf("%+v of %dx%d: %v is dropped, and torchvision's is %+v", o, h, w, in, want)
			}
			continue
		}
		for i, v := range []float64{want.x0, want.y0, want.x1, want.y1} {
			if off := math.Abs(float64(got[0][i]) - v); off > 1e-3 {
				t.Fatalf("%+v of %dx%d: %v is at %v, and torchvision's at %+v", o, h, w, in, got[0], want)
			}
		}
	}
}

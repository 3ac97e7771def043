package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fakegpu"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// maskValue is what the mask of test image i holds at a place.
func maskValue(i, y, x int, wide bool) uint16 {
	v := uint16(i*31+y*7+x*3) % 19
	if wide {
		return v * 1001
	}
	return v
}

func maskPath(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("%03d.png", i)) }

// writeMask writes the mask of test image i, of 8 bits with a palette, or of 16.
func writeMask(t testing.TB, dir string, i, h, w int, wide bool) {
	t.Helper()
	gray := image.NewGray16(image.Rect(0, 0, w, h))
	indexed := image.NewPaletted(image.Rect(0, 0, w, h), nil)
	for k := range 19 {
		indexed.Palette = append(indexed.Palette, color.RGBA{R: uint8(200 - k), G: 9, B: uint8(k), A: 255})
	}
	for n := range h * w {
		v := maskValue(i, n/w, n%w, wide)
		gray.SetGray16(n%w, n/w, color.Gray16{Y: v})
		indexed.SetColorIndex(n%w, n/w, uint8(v))
	}
	var m image.Image = indexed
	if wide {
		m = gray
	}
	var b bytes.Buffer
	testkit.Must(t, errors.Join(png.Encode(&b, m), os.MkdirAll(dir, 0o755), os.WriteFile(maskPath(dir, i), b.Bytes(), 0o644)))
}

// startMasks starts an engine of testDir(n), where write wrote the mask of each image.
func startMasks(t testing.TB, dir, masks string, n int, change ...func(*Options)) *Engine {
	t.Helper()
	e, err := tryMasks(t, dir, masks, n, change...)
	testkit.Must(t, err)
	return e
}

func tryMasks(t testing.TB, dir, masks string, n int, change ...func(*Options)) (*Engine, error) {
	t.Helper()
	ds, err := dataset.Open(t.Context(), masks, dataset.Options{Workers: 2, Prober: sample.ProbeMask})
	testkit.Must(t, err)
	t.Cleanup(func() { ds.Close() })
	rows := make([]int32, n)
	for id := range rows {
		for row := range ds.Len() {
			if ds.Path(row) == filepath.Base(maskPath("", number(n, int64(id)))) {
				rows[id] = int32(row)
			}
		}
	}
	o := testOptions()
	o.Masks = &catalog.MaskOptions{Dataset: ds, Rows: rows}
	o.Masks.Ignore = 255
	for _, f := range change {
		f(&o)
	}
	e, err := New(openDataset(t, dir), o)
	if err == nil {
		t.Cleanup(func() { e.Close() })
	}
	return e, err
}

func maskDirs(t testing.TB, n int) (dir, masks string) {
	dir, masks = testDir(t, n), t.TempDir()
	for i := range n {
		h, w := testSize(i)
		writeMask(t, masks, i, h, w, false)
	}
	return dir, masks
}

// maskElements returns the elements of .masks.npy, and the shape in its header.
func maskElements(t testing.TB, file []byte) (values []int32, header string) {
	t.Helper()
	header = strings.TrimRight(string(file[10:layout.Page]), " \n")
	data := file[layout.Page:]
	if strings.Contains(header, "|u1") {
		for _, v := range data {
			values = append(values, int32(v))
		}
		return values, header
	}
	for ; len(data) >= 4; data = data[4:] {
		values = append(values, int32(binary.LittleEndian.Uint32(data)))
	}
	return values, header
}

// isZeroed reports whether a slot holds nothing, or repeats one that does.
func isZeroed(s catalog.Sample) bool { return s.Label == -1 }

// wantMasks computes the masks of a batch from the samples in its slots.
func wantMasks(e *Engine, n int, samples []catalog.Sample, k Key, wide bool) (values []int32) {
	spec := e.catalog.Spec(k)
	slots, _ := e.catalog.Slots(k)
	for i, s := range samples {
		h, w := testSize(number(n, s.ID))
		tr := e.catalog.Options.Transform.Choose(slots[i].Epoch, s.ID, h, w)
		for y := range spec.H {
			for x := range spec.W {
				v := e.catalog.Options.Masks.Ignore
				if oh, ow := tr.Size(); y < oh && x < ow && !isZeroed(s) {
					column := x
					if tr.Flip {
						column = ow - 1 - x
					}
					v = classOf(e.catalog.Options.Masks, int32(maskValue(number(n, s.ID), tr.Y.Nearest(y), tr.X.Nearest(column), wide)))
				}
				values = append(values, v)
			}
		}
	}
	return values
}

// classOf is what a value in a file becomes.
func classOf(o *catalog.MaskOptions, v int32) int32 {
	if o.Map == nil {
		return v
	}
	if int(v) >= len(o.Map) || o.Map[v] < 0 {
		return o.Ignore
	}
	return o.Map[v]
}

func sameValues(t testing.TB, e *Engine, n int, k Key, wide bool) {
	t.Helper()
	file := read(t, e, k, layout.MasksNPY)
	if size := e.catalog.Size(k, layout.MasksNPY); int64(len(file)) != size {
		t.Errorf("%s: %d bytes, and %d were announced", k, len(file), size)
	}
	d, err := e.Describe(context.Background(), k)
	testkit.Must(t, err)
	got, header := maskElements(t, file)
	want := wantMasks(e, n, d.Samples, k, wide)
	dtype := "|u1"
	if wide {
		dtype = "<i4"
	}
	if shape := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d, %d), }", dtype, d.Spec.N, d.Spec.H, d.Spec.W); header != shape {
		t.Errorf("%s: header %s, not %s", k, header, shape)
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, not %d", k, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: element %d is %d, not %d", k, i, got[i], want[i])
		}
	}
}

// TestMasks: in every mode, the masks of a batch show the same samples as its images, in every
// slot, with the ignore index beside them, from files of 8 bits or 16, mapped, or drawn. The images
// are the same as without masks.
func TestMasks(t *testing.T) {
	const n = 23
	dir, narrow := maskDirs(t, n)
	wide := t.TempDir()
	for i := range n {
		h, w := testSize(i)
		writeMask(t, wide, i, h, w, true)
	}
	drawn := catalog.MaskOptions{
		Rows: slices.Repeat([]int32{-1}, n),
		Size: func(id int64) (int, int) { return testSize(number(n, id)) },
		Draw: func(id int64, to []byte) error {
			_, w := testSize(number(n, id))
			for k := range to {
				to[k] = byte(maskValue(number(n, id), k/w, k%w, false))
			}
			return nil
		},
	}
	for kind, set := range map[string]func(*catalog.MaskOptions){
		"narrow": func(*catalog.MaskOptions) {},
		"wide":   func(m *catalog.MaskOptions) { m.Ignore = -1 },
		"mapped": func(m *catalog.MaskOptions) { m.Map = []int32{5, -1, 0, 77} },
		"drawn":  func(m *catalog.MaskOptions) { *m = drawn },
	} {
		for mode := range resample.RandomResizedCrop + 1 {
			t.Run(fmt.Sprint(kind, " ", mode), func(t *testing.T) {
				change := func(o *Options) {
					o.Shuffle, o.Seed, o.PadMultiple, o.OnError = true, 7, 4, []catalog.OnError{Fail, Replace}[mode%2]
					o.Transform = resample.Options{Mode: mode, Flip: 0.5, CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio, ResizeTo: 9}
					if mode != resample.None {
						o.Transform.Height, o.Transform.Width = 7, 8
					}
				}
				masks := narrow
				if kind == "wide" {
					masks = wide
				}
				plain, e := start(t, dir, change), startMasks(t, dir, masks, n, change, func(o *Options) { set(o.Masks) })
				for _, k := range allKeys(e) {
					sameValues(t, e, n, k, kind == "wide")
					if got := read(t, e, k, layout.NHWCForm); !bytes.Equal(got, read(t, plain, k, layout.NHWCForm)) {
						t.Errorf("%s: other images than without masks", k)
					}
				}
				if plain.catalog.Fingerprint == e.catalog.Fingerprint {
					t.Error("the fingerprint says nothing of masks")
				}
			})
		}
	}
}

// TestIgnoreIndexRefused: masks of 8 bits have no room for some, and it is none of the classes.
func TestIgnoreIndexRefused(t *testing.T) {
	const n = 8
	dir, masks := maskDirs(t, n)
	for want, c := range map[string]struct {
		ignore  int32
		classes int
	}{"ignore index must be 0 to 255": {-1, 0}, "none of the 19 classes": {18, 19}} {
		_, err := tryMasks(t, dir, masks, n, func(o *Options) { o.Masks.Ignore, o.Masks.Classes = c.ignore, c.classes })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %s", err, want)
		}
	}
}

// maskFaults are the faults that a mask's file may have after it was indexed.
var maskFaults = map[string]func(t testing.TB, masks string, i int){
	"missing": func(t testing.TB, masks string, i int) {
		testkit.Must(t, os.Remove(maskPath(masks, i)))
	},
	"truncated": func(t testing.TB, masks string, i int) {
		testkit.Must(t, os.Truncate(maskPath(masks, i), 90))
	},
	"of 16 bits":      func(t testing.TB, masks string, i int) { h, w := testSize(i); writeMask(t, masks, i, h, w, true) },
	"of another size": func(t testing.TB, masks string, i int) { h, w := testSize(i); writeMask(t, masks, i, h+1, w, false) },
	"damaged":         func(t testing.TB, masks string, i int) { damageMask(t, maskPath(masks, i)) },
}

// damageMask damages the pixels of a mask; its size and time stay.
func damageMask(t testing.TB, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	info, errStat := os.Stat(path)
	if err = errors.Join(err, errStat); err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, []byte("IDAT"))
	data[at+6] ^= 0xff
	testkit.Must(t, errors.Join(os.WriteFile(path, data, 0o644), os.Chtimes(path, info.ModTime(), info.ModTime())))
}

// sameImages compares the images of a batch with the samples in its slots.
func sameImages(t testing.TB, e *Engine, n int, k Key, samples []catalog.Sample) {
	t.Helper()
	got, spec := read(t, e, k, layout.NHWCForm), e.catalog.Spec(k)
	for slot, s := range samples {
		h, w := testSize(number(n, s.ID))
		want := bytes.Repeat([]byte{e.catalog.Options.Fill}, int(spec.SampleBytes()))
		if !isZeroed(s) {
			p := picture(number(n, s.ID), h, w)
			for y := range h {
				copy(want[y*spec.W*3:], p[y*w*3:(y+1)*w*3])
			}
		}
		if !bytes.Equal(got[slot*len(want):][:len(want)], want) {
			t.Errorf("slot %d does not show sample %d", slot, s.ID)
		}
	}
}

// TestRepairedMask: a mask that is bad in the index, and has been repaired since, is good.
func TestRepairedMask(t *testing.T) {
	const n = 16
	for _, policy := range []catalog.OnError{Fail, Replace, Zero} {
		dir, masks := maskDirs(t, n)
		writeFile(t, maskPath(masks, 4), []byte("nothing"))
		e := startMasks(t, dir, masks, n, func(o *Options) { o.OnError = policy })
		if policy == Fail {
			fails(t, e, Key{}, layout.MasksNPY, ErrBad)
		} else {
			read(t, e, Key{}, layout.MasksNPY)
		}
		h, w := testSize(4)
		writeMask(t, masks, 4, h, w, false)
		sameValues(t, e, n, Key{}, false)
		if samples := samplesOf(t, e, Key{}); samples[2].Status != catalog.StatusOK {
			t.Errorf("%s: after the repair, the sample is %s", policy, samples[2].Status)
		}
	}
}

// TestOrientedMasks: a mask of the stored size is turned with its image, one of the upright size is
// not. If the image is shown as it is stored, it is the other way round.
func TestOrientedMasks(t *testing.T) {
	const h, w = 7, 11
	dir := t.TempDir()
	for i := range 2 {
		writeFile(t, filepath.Join(dir, fmt.Sprintf("%03d.png", i)), noisePNG(t, i, h, w, 0)) // turned to the right
	}
	masks := t.TempDir()
	writeMask(t, masks, 0, h, w, false) // stored
	writeMask(t, masks, 1, w, h, false) // upright
	for _, ignore := range []bool{false, true} {
		e := startMasks(t, dir, masks, 2, func(o *Options) { o.BatchSize, o.Decoding.IgnoreOrientation = 1, ignore })
		for i := range 2 {
			got, _ := maskElements(t, read(t, e, Key{Batch: i}, layout.MasksNPY))
			height, width := w, h // of the result
			if ignore {
				height, width = h, w
			}
			for k, v := range got {
				y, x := k/width, k%width
				switch {
				case i == 0 && !ignore:
					y, x = h-1-x, y
				case i == 1 && ignore:
					y, x = x, h-1-y
				}
				if want := int32(maskValue(i, y, x, false)); v != want || len(got) != height*width {
					t.Fatalf("mask %d, ignored: %v: element %d is %d, not %d", i, ignore, k, v, want)
				}
			}
		}
	}
}

// TestMaskSheet: the sheet has the announced size, and the color of each class.
func TestMaskSheet(t *testing.T) {
	const n = 6
	dir, masks := maskDirs(t, n)
	e := startMasks(t, dir, masks, n)
	k := Key{Batch: 1}
	sheet := read(t, e, k, layout.MasksPNG)
	if size := e.catalog.Size(k, layout.MasksPNG); int64(len(sheet)) != size {
		t.Errorf("%d bytes, and %d were announced", len(sheet), size)
	}
	m, err := png.Decode(bytes.NewReader(sheet))
	testkit.Must(t, err)
	values, _ := maskElements(t, read(t, e, k, layout.MasksNPY))
	voc := map[int32]color.RGBA{0: {0, 0, 0, 255}, 1: {128, 0, 0, 255}, 2: {0, 128, 0, 255}, 15: {192, 128, 128, 255}, 255: {224, 224, 192, 255}}
	for i, v := range values[:e.catalog.Spec(k).W] { // the first row of the first slot
		if want, known := voc[v]; known && color.RGBAModel.Convert(m.At(4+i, 4)) != want {
			t.Errorf("class %d has the colour %v, not %v", v, m.At(4+i, 4), want)
		}
	}
}

// TestMasksAreReadAhead: a reader of images and masks has both made ahead, each in its own form.
func TestMasksAreReadAhead(t *testing.T) {
	const n = 40
	dir, masks := maskDirs(t, n)
	e := startMasks(t, dir, masks, n)
	for i := range 2 {
		read(t, e, Key{Batch: i}, layout.NHWCForm)
		read(t, e, Key{Batch: i}, layout.MasksNPY)
	}
	for _, part := range []catalog.Part{catalog.Images, catalog.Masks} {
		eventually(t, "batches are made ahead", func() bool {
			return e.locked(func() bool {
				b := e.table[Key{Batch: 3, Part: part}]
				return b != nil && b.state == ready && (b.form == layout.MasksNPY) == (part == catalog.Masks)
			})
		})
	}
}

// TestMasksBesideAGPU: if a GPU decodes all images that it can, images and masks are the same as
// without it, and bad ones are handled the same.
func TestMasksBesideAGPU(t *testing.T) {
	dir := allKinds(t)
	ds := openDataset(t, dir)
	for _, policy := range []catalog.OnError{Fail, Replace, Zero} {
		change := func(o *Options) {
			o.OnError, o.BatchSize, o.Epochs, o.Workers, o.PrefetchDepth = policy, 8, 1, 1, 1
			o.Transform = resample.Options{Mode: resample.Stretch, Height: 20, Width: 30, Flip: 0.5}
			o.Masks = &catalog.MaskOptions{
				Rows: slices.Repeat([]int32{-1}, ds.Len()),
				Size: func(id int64) (int, int) { return ds.Size(int(id), true) },
				Draw: func(id int64, to []byte) error {
					for i := range to {
						to[i] = byte(int(id) + i%7)
					}
					return nil
				},
			}
		}
		with, without := decodingOn(t, dir, &fakegpu.GPU{}, change), start(t, dir, change)
		for _, k := range allKeys(without) {
			for _, form := range []layout.Form{layout.NHWCForm, layout.MasksNPY, layout.SafeTensors} {
				var got [2][]byte
				var errs [2]error
				for i, e := range []*Engine{with, without} {
					var f *File
					if f, errs[i] = e.Open(t.Context(), k, form); errs[i] == nil {
						got[i] = bytes.Clone(f.Bytes())
						f.Close()
					}
				}
				if !bytes.Equal(got[0], got[1]) || (errs[0] == nil) != (errs[1] == nil) || errs[1] != nil && !errors.Is(errs[0], ErrBad) {
					t.Errorf("%s, %s.%s: other bytes, or another error: %v, %v", policy, k, form, errs[0], errs[1])
				}
			}
		}
		if with.Stats().JPEGs.GPU == 0 {
			t.Error("the GPU made nothing")
		}
		with.Close()
		without.Close()
	}
}

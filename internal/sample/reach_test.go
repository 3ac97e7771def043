package sample

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"math/rand/v2"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/testkit"
)

// TestReadUpToTheCrop: of a JPEG with entry points, the bytes after its crop are not read, however
// long its header is. If rows of the file are not rows of the image, everything is read, and never
// more. Every other time, it is decoded at a reduced scale if it shrinks enough.
func TestReadUpToTheCrop(t *testing.T) {
	img, random := image.NewGray(image.Rect(0, 0, 320, 240)), rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = color.Gray{uint8(random.IntN(256))}.Y
	}
	var plain bytes.Buffer
	testkit.Must(t, jpeg.Encode(&plain, img, nil))
	with := func(segment string) []byte {
		return append(append([]byte("\xff\xd8"), segment...), plain.Bytes()[2:]...)
	}
	turned := func(orientation byte) []byte {
		return with("\xff\xe1\x00\x22Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00" + string([]byte{orientation}) + "\x00\x00\x00\x00\x00\x00\x00")
	}
	all := [][]byte{plain.Bytes(), with("\xff\xe2\x30\x02" + string(make([]byte, 0x3000))), turned(3), turned(6)}
	ds := open(t, files{"0.jpg": all[0], "1.jpg": all[1], "2.jpg": all[2], "3.jpg": all[3]}, "")
	store := openEntries(t, ds)
	defer store.Close()
	known := NewEntries(ds, store, false)
	o := pixels.Options{Options: decode.Options{MaxPixels: 1 << 20}}
	full := o
	full.FullJPEGs = true
	reader := NewReader(ds, o.Options, NewMemory(1<<26, 1))
	defer reader.Close()
	transform := resample.Options{Mode: resample.RandomResizedCrop, Height: 32, Width: 32, CropArea: [2]float64{0.05, 0.3}, CropRatio: [2]float64{0.75, 4.0 / 3}}
	loaders := [2]*Loader{NewLoader(ds, transform, o, known), NewLoader(ds, transform, full, known)}
	for i, data := range all {
		img, err := reader.Read(t.Context(), i, 1)
		testkit.Must(t, err)
		if n, err := reader.MakeEntries(i, img, known); err != nil || n.Made != 1 {
			t.Skipf("no entry points are made here: %+v, %v", n, err)
		}
		less := 0
		for epoch := range 40 {
			known.AllowParts(true)
			got, read, _, err := loaders[epoch%2].Load(t.Context(), epoch, int64(i), false, func(n int) []byte { return make([]byte, n) })
			if err != nil || len(got) != len(data) {
				t.Fatalf("%d: %d bytes, %v", i, len(got), err)
			}
			if read > int64(len(data)) {
				t.Errorf("%d: %d bytes of %d were read", i, read, len(data))
			}
			if read < int64(len(data)) {
				less++
				if !known.Partial() || !bytes.Equal(got[:read], data[:read]) {
					t.Errorf("%d: the first %d bytes differ", i, read)
				}
			}
		}
		if upright := i < 2; upright != (less > 20) || !upright && less > 0 {
			t.Errorf("file %d was not read as a whole %d times of 40", i, less)
		}
	}
}

package catalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// npy is a .npy file of int16 with so many rows of three.
func npy(rows int) []byte {
	header := fmt.Sprintf("{'descr': '<i2', 'fortran_order': False, 'shape': (%d, 3), }\n", rows)
	file := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
	file = append(file, header...)
	for k := range 3 * rows {
		file = binary.LittleEndian.AppendUint16(file, uint16(k+100*rows))
	}
	return file
}

// arraysIn makes a dataset of images with arrays of so many rows, -1: none.
func arraysIn(t *testing.T, rows ...int) (*dataset.Dataset, *ArrayOptions) {
	t.Helper()
	dir := t.TempDir()
	images, arrays := "path\n", "path\n"
	o := &ArrayOptions{Name: "track", Rows: make([]int32, len(rows))}
	n := int32(0)
	for i, r := range rows {
		name := fmt.Sprintf("%d.ppm", i)
		err := os.WriteFile(filepath.Join(dir, name), []byte("P6 1 1 255\nabc"), 0o600)
		images += name + "\n"
		if o.Rows[i] = -1; r >= 0 {
			name = fmt.Sprintf("%d.npy", i)
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), npy(r), 0o600))
			arrays += name + "\n"
			o.Rows[i] = n
			n++
		}
		testkit.Must(t, err)
	}
	open := func(name, text string, probe dataset.Prober) *dataset.Dataset {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		ds, err := dataset.Open(t.Context(), path, dataset.Options{Workers: 1, Prober: probe})
		testkit.Must(t, err)
		t.Cleanup(func() { ds.Close() })
		return ds
	}
	o.Dataset = open("arrays.csv", arrays, sample.ProbeArray)
	var err error
	if o.Like, err = sample.ArrayLike(t.Context(), o.Dataset, o.Rows); err != nil {
		t.Fatal(err)
	}
	return open("images.csv", images, sample.Probe), o
}

// TestArraySizes: sizes and places follow from the index and the plan.
func TestArraySizes(t *testing.T) {
	config := Options{
		Config: shard.Config{Shards: 1, BatchSize: 4, PadLastBatch: true}, Epochs: 1,
		Decoding: decode.Options{MaxPixels: 1 << 20}, Transform: resample.Options{Mode: resample.Stretch, Height: 2, Width: 2},
	}
	for name, test := range map[string]struct {
		rows   []int
		says   string
		offset []int64 // of the second batch, in elements
	}{
		"ragged": {[]int{2, 0, -1, 3, 1, 5}, "track int16 [*, 3]", []int64{0, 3, 18, 33, 48}},
		"fixed":  {[]int{4, 4, -1, 4, 4, 4}, "track int16 [4, 3]", []int64{0, 12, 24, 36, 48}},
	} {
		ds, o := arraysIn(t, test.rows...)
		plain, err := New(ds, config)
		testkit.Must(t, err)
		config := config
		config.Arrays = []*ArrayOptions{o}
		c, err := New(ds, config)
		testkit.Must(t, err)
		k, slots := Key{Batch: 1}, []shard.Slot(nil)
		slots, _ = c.Slots(k)
		at := c.Options.Arrays[0].Place(slots)
		for i := range at {
			at[i] /= 2
		}
		if o.String() != test.says || !slices.Equal(at, test.offset) || c.Fingerprint == plain.Fingerprint {
			t.Errorf("%s: %s, %d, and not %d", name, o, at, test.offset)
		}
		if size := c.Size(k, layout.ArrayForm(0)); size != layout.Page+2*test.offset[4] {
			t.Errorf("%s: %d bytes", name, size)
		}
		f := layout.ArrayOffsets(0)
		if has := c.Options.Extent(); has.Has(f) != (name == "ragged") {
			t.Errorf("%s: it has offsets: %v", name, has.Has(f))
		} else if has.Has(f) {
			if file, err := c.ArrayOffsets(k, f); err != nil || int64(len(file)) != c.Size(k, f) {
				t.Errorf("%s: offsets of %d bytes, %v", name, len(file), err)
			}
		}
		a := c.Options.Arrays[0]
		if data, err := a.Elements(3, npy(test.rows[3])); err != nil || int64(len(data)) != a.Bytes(3) {
			t.Errorf("%s: %d bytes of elements, %v", name, len(data), err)
		}
		for _, other := range [][]byte{npy(7), []byte("no array"), slices.Concat(npy(test.rows[3]), []byte("x"))} {
			if _, err := a.Elements(3, other); !errors.Is(err, errArray) {
				t.Errorf("%s: %.20q: %v", name, other, err)
			}
		}
	}
}

// TestArrayParts: each array is a part of its own, without images.
func TestArrayParts(t *testing.T) {
	two := Options{Arrays: make([]*ArrayOptions, 2)}
	for f, want := range map[layout.Form]Part{
		layout.NHWCForm: Images, layout.SafeTensors: WithArrays, layout.ArrayForm(0): ArrayPart(0), layout.ArrayForm(1): ArrayPart(1),
	} {
		if got := two.PartOf(f); got != want {
			t.Errorf("form %d is part %d, not %d", f, got, want)
		}
	}
	for i := range layout.MaxArrays {
		p := ArrayPart(i)
		if n, is := p.Array(); !is || n != i || p.HasImages() || p.HasMasks() || p.First() != p {
			t.Errorf("array %d has other parts", i)
		}
	}
}

// TestArraysRefused: ambiguous or reserved names are refused, and so is nvJPEG beside arrays.
func TestArraysRefused(t *testing.T) {
	ds, o := arraysIn(t, 1)
	again, labels := *o, *o
	labels.Name = "labels"
	for want, arrays := range map[string][]*ArrayOptions{`two arrays are called "track"`: {o, &again}, `the name "labels"`: {&labels}} {
		_, err := New(ds, Options{
			Config: shard.Config{Shards: 1, BatchSize: 1}, Epochs: 1, Decoding: decode.Options{MaxPixels: math.MaxInt64}, Arrays: arrays,
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, and not %s", err, want)
		}
	}
	_, err := New(ds, Options{
		Config: shard.Config{Shards: 1, BatchSize: 1}, Epochs: 1, Decoding: decode.Options{MaxPixels: math.MaxInt64},
		Arrays: []*ArrayOptions{o}, NVJPEG: "any",
	})
	if err == nil || !strings.Contains(err.Error(), "without masks and arrays") {
		t.Errorf("nvJPEG: %v", err)
	}
}

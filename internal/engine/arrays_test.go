package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// tracksOf is how many rows sample id has of the ragged array; sample 3 has no array at all.
func tracksOf(id int64) int {
	if id == 3 {
		return 0
	}
	return int(id*7) % 5
}

// arrayOf returns the elements of a sample's array: float32 [2,3], or rows of int16 [4].
func arrayOf(id int64, ragged bool) (data []byte) {
	switch {
	case id == 3:
		return nil
	case ragged:
		for k := range 4 * tracksOf(id) {
			data = binary.LittleEndian.AppendUint16(data, uint16(1000*int(id)+k))
		}
		return data
	}
	for k := range 6 {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(id)+float32(k)/8))
	}
	return data
}

// withArrays gives an engine of n samples the arrays poses and tracks. Their files are in folders
// of these names in root.
func withArrays(t testing.TB, o *Options, n int) (root string) {
	t.Helper()
	root = t.TempDir()
	for i, name := range []string{"poses", "tracks"} {
		a := &catalog.ArrayOptions{Name: name, Rows: make([]int32, n)}
		var manifest strings.Builder
		for id := range int64(n) {
			if a.Rows[id] = -1; id == 3 {
				continue
			}
			descr, shape := "<f4", "(2, 3)"
			if i == 1 {
				descr, shape = "<i2", fmt.Sprintf("(%d, 4)", tracksOf(id))
			}
			header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr, shape)
			file := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
			file = append(append(file, header...), arrayOf(id, i == 1)...)
			path := fmt.Sprintf("%s/%03d.npy", name, id)
			fmt.Fprintf(&manifest, "{\"path\":%q}\n", path)
			testkit.Must(t, errors.Join(os.MkdirAll(filepath.Join(root, name), 0o755), os.WriteFile(filepath.Join(root, path), file, 0o644)))
		}
		list := filepath.Join(root, name+".jsonl")
		writeFile(t, list, []byte(manifest.String()))
		ds, err := dataset.Open(t.Context(), list, dataset.Options{Workers: 2, Prober: sample.ProbeArray})
		testkit.Must(t, err)
		t.Cleanup(func() { ds.Close() })
		for row := range ds.Len() {
			var id int
			if _, err := fmt.Sscanf(ds.Path(row), name+"/%d.npy", &id); err != nil {
				t.Fatal(err)
			}
			a.Rows[id] = int32(row)
		}
		if a.Like, err = sample.ArrayLike(t.Context(), ds, a.Rows); err != nil {
			t.Fatal(err)
		}
		a.Dataset, o.Arrays = ds, append(o.Arrays, a)
	}
	return root
}

// sameArrays compares a batch's arrays with those of the samples in its slots.
func sameArrays(t testing.TB, e *Engine, k Key) {
	t.Helper()
	for i, a := range e.catalog.Options.Arrays {
		file := read(t, e, k, layout.ArrayForm(i))
		if size := e.catalog.Size(k, layout.ArrayForm(i)); int64(len(file)) != size {
			t.Errorf("%s: %d bytes of %s, and %d were announced", k, len(file), a.Name, size)
		}
		d, err := e.Describe(context.Background(), k)
		testkit.Must(t, err)
		slots, _ := e.catalog.Slots(k)
		var want []byte
		for slot, s := range d.Samples {
			room := int(a.Bytes(slots[slot].ID))
			data := arrayOf(s.ID, a.Ragged())
			if s.Status == catalog.StatusZeroed || a.Ragged() && s.ID != slots[slot].ID {
				data = nil
			}
			want = append(want, data...)
			want = append(want, make([]byte, room-len(data))...)
		}
		if !bytes.Equal(file[layout.Page:], want) {
			t.Errorf("%s: other elements of %s", k, a.Name)
		}
		spec := e.catalog.Options.SpecIn(e.catalog.Spec(k), k, layout.SafeTensors)
		all := read(t, e, k, layout.SafeTensors)
		at, _ := layout.InSafeTensors(layout.ArrayForm(i), spec)
		if got := all[at:][:len(want)]; !bytes.Equal(got, want) {
			t.Errorf("%s: other elements of %s in .safetensors", k, a.Name)
		}
		if images := read(t, e, k, layout.NHWCForm); !bytes.Equal(all[layout.DataOffset(layout.SafeTensors, spec):][:len(images)], images) {
			t.Errorf("%s: other images in .safetensors", k)
		}
	}
}

// TestArrays: batches have the arrays of the samples in their slots, whichever form is read first,
// with and without masks, and whatever becomes of bad samples.
func TestArrays(t *testing.T) {
	const n = 11
	for _, policy := range []catalog.OnError{Fail, Replace, Zero} {
		for _, masked := range []bool{false, true} {
			t.Run(fmt.Sprint(policy, masked), func(t *testing.T) {
				mode, height, width := resample.RandomResizedCrop, 7, 8
				if masked {
					mode, height, width = resample.None, 0, 0
				}
				dir, masks := maskDirs(t, n)
				if masked && policy != Fail {
					damageMask(t, maskPath(masks, 5)) // shows also when the arrays were read
				}
				change := func(o *Options) {
					o.Shuffle, o.Seed, o.PadMultiple, o.OnError = true, 5, 4, policy
					o.Transform = resample.Options{Mode: mode, Flip: 0.5, CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio, Height: height, Width: width}
					withArrays(t, o, n)
					if policy != Fail {
						o.Condemned = map[int64]string{7: "its boxes are bad"}
					}
				}
				var e *Engine
				if masked {
					e = startMasks(t, dir, masks, n, change)
				} else {
					e = start(t, dir, change)
				}
				if policy != Fail {
					corrupt(t, dir, 2)
				}
				for _, k := range allKeys(e) {
					sameArrays(t, e, k)
					if masked {
						sameValues(t, e, n, k, false)
					}
				}
			})
		}
	}
}

// TestArraysOfImagesTooLarge: an image that is refused, or cannot be read, is reported, not the
// array beside it, which may not exist.
func TestArraysOfImagesTooLarge(t *testing.T) {
	const n = 8
	for name, test := range map[string]struct {
		policy catalog.OnError
		fault  error
		want   string
	}{
		"fail": {Fail, nil, "image too large"}, "replace": {Replace, nil, ""}, "zero": {Zero, nil, ""},
		"storage": {Replace, unix.EIO, "input/output error"},
	} {
		t.Run(name, func(t *testing.T) {
			e := startFaulty(t, testDir(t, n), func(int64) error { return test.fault }, func(o *Options) {
				withArrays(t, o, n)
				o.OnError, o.PrefetchDepth, o.BatchSize = test.policy, 0, 1
				o.Transform = resample.Options{Mode: resample.Stretch, Height: 7, Width: 8}
				h, w := testSize(number(n, 3)) // this one has no array
				o.Decoding.MaxPixels = int64(h*w) - 1
			})
			refused := 0
			for _, k := range allKeys(e) {
				slots, _ := e.catalog.Slots(k)
				if h, _ := e.catalog.SizeOf(slots[0].ID); h > 0 {
					continue
				}
				if refused++; test.want == "" {
					sameArrays(t, e, k)
					continue
				}
				want := e.catalog.Dataset.Path(int(slots[0].ID)) + ": " + test.want
				if _, err := e.Open(t.Context(), k, layout.ArrayForm(0)); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, and not %s", err, want)
				}
			}
			if refused == 0 {
				t.Error("no image is too large")
			}
		})
	}
}

// TestArrayThatChanges: if an array is gone, or has changed, only the files that show it fail, even
// if bad samples are replaced. Once it is back they can be read.
func TestArrayThatChanges(t *testing.T) {
	const n = 4
	var root string
	e := start(t, testDir(t, n), func(o *Options) {
		o.OnError, o.PrefetchDepth = Replace, 0
		root = withArrays(t, o, n)
	})
	k, path := Key{}, filepath.Join(root, "poses", "001.npy")
	file := contents(t, path)
	tryBoth := func(wrong string) {
		for _, form := range []layout.Form{layout.ArrayForm(0), layout.SafeTensors} {
			f, err := e.Open(context.Background(), k, form)
			if err == nil {
				f.Close()
			}
			if err == nil != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
				t.Errorf("%v: %v, and %q is wrong", form, err, wrong)
			}
			if d, err := e.Describe(context.Background(), k); err != nil || len(d.Samples) == 0 || d.Samples[0].Status != catalog.StatusOK {
				t.Errorf("after %v: %+v, %v", form, d.Samples, err)
			}
		}
		for _, form := range []layout.Form{layout.ArrayForm(1), layout.NHWCForm} {
			read(t, e, k, form)
		}
	}
	aside := path + ".aside"
	testkit.Must(t, os.Rename(path, aside))
	for _, other := range [][]byte{nil, file[:len(file)-4], bytes.Replace(file, []byte("<f4"), []byte("<i4"), 1)} {
		if tryBoth("poses/001.npy"); other == nil {
			continue
		}
		writeFile(t, path, other)
		tryBoth("poses/001.npy: file changed since it was indexed (run batchfs index DATASET, with the --targets of the mount")
	}
	testkit.Must(t, os.Rename(aside, path))
	tryBoth("")
}

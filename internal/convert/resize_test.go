package convert

import (
	"bytes"
	"context"
	"testing"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// TestStoredShrunk: a mount that resizes shows the same pixels for images stored at that size
// as for the originals.
func TestStoredShrunk(t *testing.T) {
	path := mixed(t)
	for mode, format := range map[resample.Mode]Format{resample.Stretch: PPM, resample.NotLarger: BMP, resample.NotSmaller: PPM} {
		const h, w = 56, 40
		want := batchOf(t, open(t, path), mode, h, w)
		out, r := convert(t, path, Options{Shares: Shares{Raw: 1}, Format: format, Resize: mode, Height: h, Width: w})
		ds := open(t, out)
		if got := batchOf(t, ds, mode, h, w); !bytes.Equal(got, want) {
			t.Errorf("%v: a mount shows other pixels", mode)
		}
		if already := r.AlreadyRaw; r.Converted != ds.Len()-already {
			t.Errorf("%v: reported %+v", mode, r)
		}
		was := open(t, path)
		for i := range ds.Len() {
			if height, width := ds.Size(i, false); ds.Path(i) != was.Path(i) && (height > h || width > w) {
				t.Fatalf("%v: %s is %dx%d", mode, ds.Path(i), height, width)
			}
		}
	}
}

// batchOf returns the whole dataset as one batch.
func batchOf(t *testing.T, ds *dataset.Dataset, mode resample.Mode, h, w int) []byte {
	t.Helper()
	e, err := engine.New(ds, engine.Options{
		Options: catalog.Options{
			Config: shard.Config{Shards: 1, BatchSize: ds.Len()}, Epochs: 1, Decoding: decode.Options{MaxPixels: 1 << 28},
			Transform: resample.Options{Mode: mode, Height: h, Width: w},
		},
		Workers: 2, BatchWorkers: 1, MemoryLimit: 1 << 30, Anonymous: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	f, err := e.Open(context.Background(), engine.Key{}, layout.NHWCForm)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return bytes.Clone(f.Bytes())
}

// TestIgnoredOrientation: raw samples can keep the orientation in which they are stored.
func TestIgnoredOrientation(t *testing.T) {
	path := mixed(t)
	out, _ := convert(t, path, Options{Shares: Shares{Raw: 1}, Format: PPM, IgnoreOrientation: true})
	was, is := open(t, path), open(t, out)
	turned := 0
	for i := range was.Len() {
		h, w := was.Size(i, true)
		if gotH, gotW := is.Size(i, false); gotH != h || gotW != w {
			t.Errorf("%s is %dx%d, stored were %dx%d", is.Path(i), gotH, gotW, h, w)
		}
		if uprightH, _ := was.Size(i, false); uprightH != h {
			turned++
		}
	}
	if turned == 0 {
		t.Error("no sample is turned")
	}
}

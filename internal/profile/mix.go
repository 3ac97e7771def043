package profile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/entries"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/shard"
)

// mix is a dataset of the first images, in some forms.
type mix struct {
	*dataset.Dataset
	sizes []int64 // of the files, in order
}

// spread says which form each image has in a mix. is are their present forms, and may says which
// other forms are possible. Any range of images has its share of each form.
func spread(is []shard.Cost, may func(k int, f shard.Cost) bool, s convert.Shares) []shard.Cost {
	chosen := slices.Clone(is)
	for _, f := range []shard.Cost{shard.Raw, shard.Packed} {
		already, open := 0.0, []int{}
		for k := range chosen {
			if chosen[k] == f {
				already++
			} else if chosen[k] == shard.Encoded && may(k, f) {
				open = append(open, k)
			}
		}
		share := (s.Of(f)*float64(len(chosen)) - already) / max(float64(len(open)), 1)
		for next, k := range open {
			if among(int64(next), min(max(share, 0), 1)) {
				chosen[k] = f
			}
		}
	}
	return chosen
}

// formsIn says in which form each image of a mix is.
func formsIn(images []picture, s convert.Shares) []shard.Cost {
	is := make([]shard.Cost, len(images))
	for k := range is {
		is[k] = images[k].is
	}
	return spread(is, func(k int, f shard.Cost) bool { return images[k].files[f].path != "" }, s)
}

// openMix makes a mix of the first n images and reads it as the mount would. later says that the
// epoch is not the first, so that entry points are already found. Scanning headers and finding
// entry points is never subject to the bandwidth limit.
func (p *profiler) openMix(ctx context.Context, s convert.Shares, n int, storage dataset.Storage, later bool) (*mix, error) {
	m := &mix{}
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	for k, form := range formsIn(p.images[:n], s) {
		f := p.images[k].files[form]
		m.sizes = append(m.sizes, f.size)
		if err := lines.Encode(map[string]string{"path": f.path}); err != nil {
			return nil, err
		}
	}
	manifest := filepath.Join(p.work, fmt.Sprintf("mix-%d.jsonl", p.mixes))
	p.mixes++
	if err := os.WriteFile(manifest, text.Bytes(), 0o600); err != nil {
		return nil, err
	}
	o := dataset.Options{
		CacheDir: filepath.Join(p.work, "index"), Workers: p.o.Engine.Workers, AllowOutside: true, Prober: sample.Probe,
		Logger: p.o.Engine.Logger, Storage: dataset.Storage{Direct: storage.Direct},
	}
	ds, err := dataset.Open(ctx, manifest, o)
	if err == nil && later {
		if err = p.findEntries(ctx, ds); err != nil {
			return nil, errors.Join(err, ds.Close())
		}
	}
	if err == nil && storage.MaxBandwidth > 0 { // the index is complete now
		o.Storage = storage
		if err = ds.Close(); err == nil {
			ds, err = dataset.Open(ctx, manifest, o)
		}
	}
	if err != nil {
		return nil, err
	}
	m.Dataset = ds
	return m, nil
}

// openEntries opens the entry points of a mix, nil if the mount has none.
func (p *profiler) openEntries(ds *dataset.Dataset) (*entries.Store, error) {
	if p.o.Engine.Entries == decode.EntryOff || p.o.Engine.NVJPEG != "" {
		return nil, nil
	}
	return ds.OpenEntries(entries.Options{Rule: int32(p.o.Engine.Entries), Strict: true, Wait: true})
}

// findEntries makes the entry points of a mix, as the first epoch of a mount does.
func (p *profiler) findEntries(ctx context.Context, ds *dataset.Dataset) error {
	store, err := p.openEntries(ds)
	if store == nil || err != nil {
		return err
	}
	memory := sample.NewMemory(p.o.Engine.MemoryLimit, p.o.Engine.Workers)
	err = parallel.Each(ctx, p.o.Engine.Workers, ds.Len(), nil, func(ctx context.Context, items iter.Seq[int]) error {
		r := sample.NewReader(ds, p.o.Engine.Decoding, memory)
		defer r.Close()
		e := sample.NewEntries(ds, store, false)
		for i := range items {
			if ds.Format(i) != decode.JPEG.String() {
				continue
			}
			img, err := r.Read(ctx, i, 0)
			if err == nil {
				_, _ = r.MakeEntries(i, img, e) // every image was readable before
			}
			if r.Done(); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	return errors.Join(err, store.Close())
}

func mean(sizes []int64) float64 {
	sum := 0.0
	for _, n := range sizes {
		sum += float64(n)
	}
	return sum / float64(len(sizes))
}

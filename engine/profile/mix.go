package profile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/engine"
)

// mix is a dataset of the first of the images, some of them raw.
type mix struct {
	manifest string
	raw      float64 // the actual share
	sizes    []int64 // of the files, in order
	isRaw    []bool
}

// spread says which images of a mix are raw. Any range of images has its share of raw ones.
func spread(images []picture, raw float64) []bool {
	already := 0
	for _, img := range images {
		if img.already {
			already++
		}
	}
	share := toConvert(raw, float64(already)/float64(len(images)))
	isRaw, seen := make([]bool, len(images)), 0
	for k, img := range images {
		if img.already {
			isRaw[k] = true
			continue
		}
		isRaw[k] = int(float64(seen+1)*share+0.5) > int(float64(seen)*share+0.5)
		seen++
	}
	return isRaw
}

// openMix makes a mix of the first n images and reads it as the mount would. Scanning its
// headers is never subject to the bandwidth limit.
func (p *profiler) openMix(ctx context.Context, raw float64, n int, storage dataset.Storage) (*mix, *dataset.Dataset, error) {
	m := &mix{manifest: filepath.Join(p.work.dir, fmt.Sprintf("mix-%d.jsonl", p.mixes)), isRaw: spread(p.images[:n], raw)}
	p.mixes++
	var text bytes.Buffer
	lines, count := json.NewEncoder(&text), 0
	for k, raw := range m.isRaw {
		path, size := p.images[k].path, p.images[k].size
		if raw {
			path, size = p.images[k].raw, p.images[k].rawSize
			count++
		}
		m.sizes = append(m.sizes, size)
		if err := lines.Encode(map[string]string{"path": path}); err != nil {
			return nil, nil, err
		}
	}
	m.raw = float64(count) / float64(n)
	if err := os.WriteFile(m.manifest, text.Bytes(), 0o600); err != nil {
		return nil, nil, err
	}
	o := dataset.Options{
		CacheDir: filepath.Join(p.work.dir, "index"), Workers: p.o.Engine.Workers, AllowOutside: true, Prober: engine.Probe,
		Logger: p.o.Logger, Storage: dataset.Storage{Direct: storage.Direct},
	}
	ds, err := dataset.Open(ctx, m.manifest, o)
	if err == nil && storage.MaxBandwidth > 0 { // the index is complete now
		o.Storage = storage
		if err = ds.Close(); err == nil {
			ds, err = dataset.Open(ctx, m.manifest, o)
		}
	}
	return m, ds, err
}

func mean(sizes []int64) float64 {
	sum := 0.0
	for _, n := range sizes {
		sum += float64(n)
	}
	return sum / float64(len(sizes))
}

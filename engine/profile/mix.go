package profile

import (
	"bufio"
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

// makeMix writes the manifest of a mix of the first n images.
func (p *profiler) makeMix(raw float64, n int) (*mix, error) {
	images := p.images[:n]
	m := &mix{manifest: filepath.Join(p.work.dir, fmt.Sprintf("mix-%d.jsonl", p.mixes)), isRaw: spread(images, raw)}
	p.mixes++
	f, err := os.OpenFile(m.manifest, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	lines, count := json.NewEncoder(out), 0
	for k, raw := range m.isRaw {
		path, size := images[k].path, images[k].size
		if raw {
			path, size = images[k].raw, images[k].rawSize
			count++
		}
		m.sizes = append(m.sizes, size)
		if err := lines.Encode(struct {
			Path string `json:"path"`
		}{path}); err != nil {
			return nil, err
		}
	}
	m.raw = float64(count) / float64(n)
	return m, out.Flush()
}

// open opens a mix and reads it as the mount would. Scanning its headers is never subject
// to the bandwidth limit.
func (p *profiler) open(ctx context.Context, m *mix, storage dataset.Storage) (*dataset.Dataset, error) {
	o := dataset.Options{
		CacheDir: p.index, Workers: p.o.Engine.Workers, AllowOutside: true, Prober: engine.Probe, Logger: p.o.Logger,
		Storage: dataset.Storage{Direct: storage.Direct},
	}
	ds, err := dataset.Open(ctx, m.manifest, o)
	if err != nil || storage.MaxBandwidth == 0 {
		return ds, err
	}
	// The index is complete now.
	if err := ds.Close(); err != nil {
		return nil, err
	}
	o.Storage = storage
	return dataset.Open(ctx, m.manifest, o)
}

// mean is the average file size of a mix.
func (m *mix) mean() float64 { return mean(m.sizes) }

func mean(sizes []int64) float64 {
	sum := 0.0
	for _, n := range sizes {
		sum += float64(n)
	}
	return sum / float64(len(sizes))
}

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/batchfs/batchfs/internal/profile"
	"github.com/batchfs/batchfs/internal/throughput"
)

// This file measures the claims of Liquid (see ../README.md): that a mix of encoded and raw
// images is faster than either if processors or storage are scarce, and that the profiler
// finds that mix. Different storage bandwidths stand in for different machines. All rivals
// read the same images, make the same batches, and have the same amount of memory for
// cached data: cachedShare of the encoded dataset's bytes.

// A pipeline is a dataset and the transforms that training applies to it.
type pipeline struct {
	name   string
	set    func(*bench) *pictures
	images int // at most, evenly chosen from the set; a multiple of batch
	batch  int
	flags  []string
	wanted float64 // speedup of the best mix over encoded images if storage has bandwidth to spare
}

var pipelines = []pipeline{
	{name: "PNG", set: cityscapes, images: 128, batch: 16, wanted: 2.5,
		flags: []string{"--resize", "random-resized-crop", "--size", "512x1024", "--flip", "0.5"}},
	{name: "JPEG", set: photos, images: 2048, batch: 64, flags: trainingCrop},
}

const (
	tenths  = 10
	toSpare = 1200 // MB/s
)

// bandwidths of storage, in MB/s.
var bandwidths = []int{150, 600, 1200}

// mixes measures all pipelines at all bandwidths, and draws the results.
func mixes(ctx context.Context, b *bench) (list []contest, err error) {
	var results []*mixResult
	for _, p := range pipelines {
		d, err := prepareMixes(ctx, b, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		for _, mb := range bandwidths {
			r := &mixResult{pipeline: p, bandwidth: mb}
			results, list = append(results, r), append(list, mixesAt(b, d, r))
		}
	}
	list[len(list)-1].within = func(work func() error) error {
		if err := work(); err != nil {
			return err
		}
		return drawMixes(results, b.plots)
	}
	return list, nil
}

// mixData locates a pipeline's images.
type mixData struct {
	dir     string   // has them encoded, raw, and as another encoded copy: all readers of a file share its page cache
	encoded int64    // bytes
	paths   []string // of encoded images
}

// cacheBytes is the memory each rival has for cached data.
func (d *mixData) cacheBytes() int64 { return int64(cachedShare * float64(d.encoded)) }

// pages is the directory of the copy for the page cache.
func (d *mixData) pages() string { return filepath.Join(d.dir, "pages") }

// mix is the manifest of a mix.
func (d *mixData) mix(raw float64) string {
	return filepath.Join(d.dir, fmt.Sprintf("raw-%.4f.csv", raw))
}

// prepareMixes makes raw and encoded copies of the images, none of them in the page cache,
// and a manifest and an index for each mix.
func prepareMixes(ctx context.Context, b *bench, p pipeline) (*mixData, error) {
	set := p.set(b)
	b.progress.step("copying images", 0, 1)
	d := &mixData{dir: filepath.Join(b.work, p.name)}
	encoded, raw := filepath.Join(d.dir, "encoded"), filepath.Join(d.dir, "raw")
	n := min(p.images, set.images/p.batch*p.batch)
	if n == 0 {
		return nil, fmt.Errorf("%d images are less than a batch", set.images)
	}
	for k := range n {
		path := set.Path(k * set.images / n)
		content, err := os.ReadFile(filepath.Join(set.Root(), path))
		if err != nil {
			return nil, err
		}
		for _, copy := range []string{filepath.Join(encoded, path), filepath.Join(d.pages(), path)} {
			if err := errors.Join(os.MkdirAll(filepath.Dir(copy), 0o755), os.WriteFile(copy, content, 0o644)); err != nil {
				return nil, err
			}
		}
		d.encoded += int64(len(content))
		d.paths = append(d.paths, path)
	}
	b.progress.step("making raw copies", 0, 1)
	if _, err := b.command(ctx, "convert", "--raw-ratio", "1", encoded, raw); err != nil {
		return nil, err
	}
	for tenth := range tenths + 1 {
		if err := writeMix(ctx, b, d, float64(tenth)/tenths); err != nil {
			return nil, err
		}
	}
	if _, err := b.command(ctx, "index", d.pages()); err != nil {
		return nil, err
	}
	return d, dropPages(d.dir)
}

// writeMix writes the manifest of a mix and its index. Raw images are spread evenly.
func writeMix(ctx context.Context, b *bench, d *mixData, raw float64) error {
	return b.manifestOf(ctx, d.mix(raw), "path", len(d.paths), func(k int) string {
		if int(float64(k+1)*raw+0.5) > int(float64(k)*raw+0.5) {
			return fmt.Sprintf("raw/%s.bmp", d.paths[k])
		}
		return "encoded/" + d.paths[k]
	})
}

// A rival is one way to get the batches of a pipeline.
type rival struct {
	name  string
	raw   float64 // share of raw images
	rates series
}

// A mixResult holds the results of a pipeline's rivals at one bandwidth: those with other caches,
// the mixes in steps of a tenth, and the profiler's mix.
type mixResult struct {
	pipeline  pipeline
	bandwidth int
	rivals    []*rival
}

func (r *mixResult) chosen() *rival  { return r.rivals[len(r.rivals)-1] }
func (r *mixResult) mixes() []*rival { return r.rivals[len(r.rivals)-tenths-2 : len(r.rivals)-1] }

// best is the fastest of the 11 mixes.
func (r *mixResult) best() *rival {
	return slices.MaxFunc(r.mixes(), func(a, b *rival) int { return cmp.Compare(a.rates.median(), b.rates.median()) })
}

// mixesAt lets all rivals take turns at one bandwidth.
func mixesAt(b *bench, d *mixData, r *mixResult) contest {
	p := r.pipeline
	bandwidth := fmt.Sprintf("%dMB", r.bandwidth)
	limited := []string{"--max-read-bandwidth", bandwidth, "--cache-size", fmt.Sprint(d.cacheBytes())}
	// With 8 workers, those that wait for storage leave the processors to others.
	flags := append(shuffled(p.batch, p.flags...), "--workers", "8")
	rivalOf := func(dataset string, more ...string) mount {
		also := func(t *throughput.Training, f figures) error { return spreadOf(t.Mount, t.Samples/t.Batches, f) }
		return mount{dataset: dataset, flags: slices.Concat(flags, more), time: 1200 * time.Millisecond, also: also}
	}
	var sides []contender
	add := func(name string, raw float64, c contender) {
		r.rivals, sides = append(r.rivals, &rival{name: name, raw: raw}), append(sides, c)
	}
	add("page cache", 0, pageCacheRival(b, d, r.bandwidth, rivalOf(d.pages(), warm()...)))
	add("static cache (CoorDL)", 0, b.training(rivalOf(d.mix(0), append(limited, "--cache-policy", "static")...)))
	for tenth := range tenths + 1 {
		raw := float64(tenth) / tenths
		add("constant cache, "+mixName(raw), raw, b.training(rivalOf(d.mix(raw), limited...)))
	}
	// The profiler goes last, so that it sees the machine under the same conditions as its rivals.
	add("", 0, contender{start: func(ctx context.Context) (turn, error) {
		chosen := r.chosen()
		args := slices.Concat([]string{"profile", "--json", "--work", b.work}, limited, flags, []string{d.mix(0)})
		out, err := b.command(ctx, args...)
		if err != nil {
			return nil, err
		}
		var answer profile.Result
		if err := json.Unmarshal(out, &answer); err != nil {
			return nil, err
		}
		chosen.raw, chosen.name = answer.RawRatio, "constant cache, the profiler's "+mixName(answer.RawRatio)
		if err := writeMix(ctx, b, d, chosen.raw); err != nil {
			return nil, err
		}
		return b.training(rivalOf(d.mix(chosen.raw), limited...)).start(ctx)
	}})
	where := fmt.Sprintf("%s, storage of %d MB/s: ", p.name, r.bandwidth)
	return contest{what: where, contenders: sides, rows: func(found results) (rows []row) {
		for i, one := range r.rivals {
			one.rates = found.of(rate, i)
			note := found.spread(i)
			if i == 0 {
				note = fmt.Sprintf("%v MB a batch, as the disk saw it", found.of(loaded, i).last())
			}
			rows = append(rows, measured(where+one.name, "images/s", one.rates).noted("%s", note))
		}
		encoded, best, chosen := r.mixes()[0], r.best(), r.chosen()
		gain := measured(where+"best mix / encoded only", "x", best.rates.over(encoded.rates))
		gain = gain.noted("best is %s", mixName(best.raw))
		if p.wanted > 0 && r.bandwidth >= toSpare {
			gain = gain.atLeast(p.wanted)
		}
		profiled := measured(where+"the profiler's mix / best of 11", "x", chosen.rates.over(best.rates)).atLeast(0.95)
		return append(rows, profiled.noted("%s / %s", mixName(chosen.raw), mixName(best.raw)), gain)
	}}
}

// loaded is the figure of how many bytes a batch the daemon has read from disk since the first epoch.
var loaded = figure{"loaded", "MB", 1e-6}

// pageCacheRival reads through the page cache in a control group. The group limits reads
// from disk, but not from the page cache, and allows the page cache as much memory as the
// other rivals have for their caches.
func pageCacheRival(b *bench, d *mixData, mb int, m mount) contender {
	var group *cgroup
	var first int64
	m.limit = func(g *cgroup) error {
		group = g
		return errors.Join(g.limitReads(d.pages(), int64(mb)*1e6), dropPages(d.pages()))
	}
	read := func(t *throughput.Training) (int64, error) {
		return number(fmt.Sprintf("/proc/%d/io", t.Mount.Cmd.Process.Pid), "read_bytes: ")
	}
	m.trained = func(t *throughput.Training) (err error) {
		first, err = read(t)
		// The daemon has allocated its own memory by now.
		return errors.Join(err, group.limitFiles(d.cacheBytes()))
	}
	m.also = func(t *throughput.Training, f figures) error {
		n, err := read(t)
		f[loaded] = float64(n-first) / float64(t.Next-t.Batches)
		return err
	}
	c := b.training(m)
	c.optional = true
	return c
}

// mixName writes a mix as Liquid does: encoded to raw.
func mixName(raw float64) string { return fmt.Sprintf("%.3g:%.3g", tenths*(1-raw), tenths*raw) }

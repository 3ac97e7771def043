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
	"strconv"
	"time"

	"github.com/batchfs/batchfs/engine/profile"
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
	set    func(*setup) *imageSet
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
	cachedShare = 0.3
	tenths      = 10
	toSpare     = 1200 // MB/s
	turn        = 1200 * time.Millisecond
)

// bandwidths of storage, in MB/s.
var bandwidths = []int{150, 600, 1200}

// A rival is one way to get the batches of a pipeline: a mount and its measurements.
type rival struct {
	name     string
	raw      float64 // share of raw images
	training *throughput.Training
	group    *cgroup // set if it relies on the page cache
	loaded   int64   // if so: bytes read from disk in the first epoch
	rates    []float64
	note     string // what it read from storage, and what from the cache
}

// mixes measures all pipelines at all bandwidths.
func mixes(ctx context.Context, s *setup) (rows []row, err error) {
	var results []*mixResult
	for _, p := range pipelines {
		data, err := s.prepareMixes(ctx, p)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", p.name, err)
		}
		for _, mb := range bandwidths {
			r, err := s.mixesAt(ctx, p, data, mb)
			if err != nil {
				return rows, fmt.Errorf("%s at %d MB/s: %w", p.name, mb, err)
			}
			results, rows = append(results, r), append(rows, r.rows()...)
		}
	}
	return rows, s.draw(results)
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

// limits returns the flags that limit storage bandwidth, in MB/s, and the cache size.
func (d *mixData) limits(mb int) []string {
	return []string{"--max-read-bandwidth", fmt.Sprintf("%dMB", mb), "--cache-size", fmt.Sprint(d.cacheBytes())}
}

// prepareMixes makes raw and encoded copies of the images, none of them in the page cache,
// and a manifest and an index for each mix.
func (s *setup) prepareMixes(ctx context.Context, p pipeline) (*mixData, error) {
	set := p.set(s)
	if err := s.need(ctx, set); err != nil {
		return nil, err
	}
	s.progress.step("copying images", 0, 1)
	d := &mixData{dir: filepath.Join(s.work, p.name)}
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
	s.progress.step("making raw copies", 0, 1)
	if _, err := s.command(ctx, "convert", "--raw-ratio", "1", encoded, raw); err != nil {
		return nil, err
	}
	for tenth := range tenths + 1 {
		if err := s.writeMix(ctx, d, float64(tenth)/tenths); err != nil {
			return nil, err
		}
	}
	if _, err := s.command(ctx, "index", d.pages()); err != nil {
		return nil, err
	}
	return d, dropPages(d.dir)
}

// writeMix writes the manifest of a mix and its index. Raw images are spread evenly.
func (s *setup) writeMix(ctx context.Context, d *mixData, raw float64) error {
	text := []byte("path\n")
	for k, path := range d.paths {
		if int(float64(k+1)*raw+0.5) > int(float64(k)*raw+0.5) {
			text = fmt.Appendf(text, "raw/%s.bmp\n", path)
		} else {
			text = fmt.Appendf(text, "encoded/%s\n", path)
		}
	}
	if err := os.WriteFile(d.mix(raw), text, 0o644); err != nil {
		return err
	}
	_, err := s.command(ctx, "index", d.mix(raw))
	return err
}

// A mixResult holds the results of a pipeline's rivals at one bandwidth: those with other caches,
// the mixes in steps of a tenth, and the profiler's mix.
type mixResult struct {
	pipeline   pipeline
	bandwidth  int
	rivals     []*rival
	impossible error // why there is none that relies on the page cache
}

func (r *mixResult) chosen() *rival  { return r.rivals[len(r.rivals)-1] }
func (r *mixResult) mixes() []*rival { return r.rivals[len(r.rivals)-tenths-2 : len(r.rivals)-1] }

// best is the fastest of the 11 mixes.
func (r *mixResult) best() *rival {
	return slices.MaxFunc(r.mixes(), func(a, b *rival) int { return cmp.Compare(median(a.rates), median(b.rates)) })
}

// mixesAt lets all rivals take turns at one bandwidth.
func (s *setup) mixesAt(ctx context.Context, p pipeline, d *mixData, mb int) (r *mixResult, err error) {
	r = &mixResult{pipeline: p, bandwidth: mb}
	defer func() {
		for _, one := range r.rivals {
			err = errors.Join(err, one.end(ctx))
		}
	}()
	what := fmt.Sprintf("%s at %d MB/s", p.name, mb)
	add := func(one *rival, err error) error {
		if err == nil {
			r.rivals = append(r.rivals, one)
			s.progress.step(what+", first epochs", len(r.rivals), tenths+4)
		}
		return err
	}
	r.impossible = add(s.pageCacheRival(ctx, p, d, mb))
	limited := d.limits(mb)
	static := append(d.limits(mb), "--cache-policy", "static")
	if err := add(s.newRival(ctx, p, "static cache (CoorDL)", 0, d.mix(0), static)); err != nil {
		return r, err
	}
	for tenth := range tenths + 1 {
		raw := float64(tenth) / tenths
		if err := add(s.newRival(ctx, p, "constant cache, "+mixName(raw), raw, d.mix(raw), limited)); err != nil {
			return r, err
		}
	}
	// The profiler goes last, so that it sees the machine under the same conditions as its
	// rivals.
	s.progress.step("profiling "+what, 0, 1)
	raw, err := s.profile(ctx, p, d, mb)
	if err != nil {
		return r, err
	}
	if err := s.writeMix(ctx, d, raw); err != nil {
		return r, err
	}
	if err := add(s.newRival(ctx, p, "constant cache, the profiler's "+mixName(raw), raw, d.mix(raw), limited)); err != nil {
		return r, err
	}
	return r, s.trainInTurns(ctx, what+", taking turns", r.rivals)
}

func (s *setup) trainInTurns(ctx context.Context, what string, rivals []*rival) error {
	sides := make([]side, len(rivals))
	for i, one := range rivals {
		sides[i] = one.turn
	}
	rates, err := s.turns(ctx, what, s.rounds, sides...)
	if err != nil {
		return err
	}
	for i, one := range rivals {
		one.rates = rates[i]
		if err := one.describe(); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return nil
}

// mountFlags returns the flags of every mount of a pipeline. With 8 workers, those that
// wait for storage leave the processors to others.
func (p pipeline) mountFlags() []string {
	return append(shuffled(p.batch, p.flags...), "--workers", "8")
}

// profile asks batchfs profile for the share of raw images.
func (s *setup) profile(ctx context.Context, p pipeline, d *mixData, mb int) (float64, error) {
	args := slices.Concat([]string{"profile", "--json", "--work", s.work}, d.limits(mb), p.mountFlags(), []string{d.mix(0)})
	out, err := s.command(ctx, args...)
	if err != nil {
		return 0, err
	}
	var answer profile.Result
	return answer.RawRatio, json.Unmarshal(out, &answer)
}

// newRival mounts and reads the first epoch.
func (s *setup) newRival(ctx context.Context, p pipeline, name string, raw float64, dataset string, flags []string) (*rival, error) {
	t, err := s.train(ctx, dataset, append(p.mountFlags(), flags...), throughput.Mapped)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &rival{name: name, raw: raw, training: t}, nil
}

// pageCacheRival reads through the page cache in a control group. The group limits reads
// from disk, but not from the page cache, and allows the page cache as much memory as the
// other rivals have for their caches. The error says why that is impossible here.
func (s *setup) pageCacheRival(ctx context.Context, p pipeline, d *mixData, mb int) (one *rival, err error) {
	group, err := newCgroup("batchfs-bench-" + strconv.Itoa(os.Getpid()))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, group.remove())
		}
	}()
	inside := *s
	inside.batchfs = filepath.Join(d.dir, "batchfs-in-group")
	err = errors.Join(group.wrap(s.batchfs, inside.batchfs), group.limitReads(d.pages(), int64(mb)*1e6), dropPages(d.pages()))
	if err != nil {
		return nil, err
	}
	if one, err = inside.newRival(ctx, p, "page cache", 0, d.pages(), warm()); err != nil {
		return nil, err
	}
	one.loaded, err = one.fromDisk()
	// The daemon has allocated its own memory by now.
	if err = errors.Join(err, group.limitFiles(d.cacheBytes())); err != nil {
		return nil, errors.Join(err, one.end(ctx))
	}
	one.group = group
	return one, nil
}

// turn lets the rival train for one turn, and returns images per second.
func (one *rival) turn(ctx context.Context) (rate float64, err error) {
	t := one.training
	err = t.Turn(ctx, func() error {
		began, first := time.Now(), t.Next
		for t.Next-first < throughput.Ahead || time.Since(began) < turn {
			if _, err := t.Take(ctx, 1); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
		}
		images := float64(t.Next-first) * float64(t.Samples) / float64(t.Batches)
		rate = images / time.Since(began).Seconds()
		return nil
	})
	return rate, err
}

// describe notes the figures of storage and cache, from the second epoch on.
func (one *rival) describe() error {
	t := one.training
	if one.group != nil {
		n, err := one.fromDisk()
		one.note = fmt.Sprintf("%.1f MB a batch, as the disk saw it", float64(n-one.loaded)/1e6/float64(t.Next-t.Batches))
		return err
	}
	t.Mount.Resume()
	defer t.Mount.Pause()
	s, err := spreadOf(t.Mount, t.Samples/t.Batches)
	one.note = s.String()
	return err
}

// fromDisk is the number of bytes the daemon has read from disk so far.
func (one *rival) fromDisk() (int64, error) {
	return number(fmt.Sprintf("/proc/%d/io", one.training.Mount.Cmd.Process.Pid), "read_bytes: ")
}

func (one *rival) end(ctx context.Context) error {
	err := one.training.Mount.Unmount(ctx)
	if one.group != nil {
		err = errors.Join(err, one.group.remove())
	}
	return err
}

// mixName writes a mix as Liquid does: encoded to raw.
func mixName(raw float64) string { return fmt.Sprintf("%.3g:%.3g", tenths*(1-raw), tenths*raw) }

// rows returns the result's rows of the table.
func (r *mixResult) rows() (rows []row) {
	where := fmt.Sprintf("%s, storage of %d MB/s: ", r.pipeline.name, r.bandwidth)
	if r.impossible != nil {
		rows = append(rows, row{what: where + "page cache", skipped: r.impossible.Error()})
	}
	for _, one := range r.rivals {
		rows = append(rows, measured(where+one.name, "images/s", one.rates, one.note))
	}
	encoded, best, chosen := r.mixes()[0], r.best(), r.chosen()
	gain := measured(where+"best mix / encoded only", "x", ratios(best.rates, encoded.rates), "best is "+mixName(best.raw))
	if r.pipeline.wanted > 0 && r.bandwidth >= toSpare {
		gain = gain.atLeast(r.pipeline.wanted)
	}
	note := fmt.Sprintf("%s / %s", mixName(chosen.raw), mixName(best.raw))
	return append(rows, measured(where+"the profiler's mix / best of 11", "x", ratios(chosen.rates, best.rates), note).atLeast(0.95), gain)
}

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

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
	{name: "PNG", set: func(s *setup) *imageSet { return &s.cityscapes }, images: 128, batch: 16, wanted: 2.5,
		flags: []string{"--resize", "random-resized-crop", "--size", "512x1024", "--flip", "0.5"}},
	{name: "JPEG", set: func(s *setup) *imageSet { return &s.photos }, images: 2048, batch: 64, flags: trainingCrop},
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
	rates    []float64
	device   []float64 // if group is set: bytes read from the device between one batch and the next
	spread   spread    // of all turns
}

// mixes measures all pipelines at all bandwidths.
func mixes(ctx context.Context, s *setup) (rows []row, err error) {
	var results []mixResult
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
	dir     string
	pages   string             // another copy of the encoded images: all readers of a file share its page cache
	mixes   [tenths + 1]string // manifests, by the number of raw images in ten
	encoded int64              // bytes
	paths   []string           // of encoded images, below dir
	raw     []string           // of the same
}

// cacheBytes is the memory each rival has for cached data.
func (d *mixData) cacheBytes() int64 { return int64(cachedShare * float64(d.encoded)) }

// limits returns the flags that limit storage bandwidth, in MB/s, and the cache size.
func (d *mixData) limits(mb int) []string {
	return []string{"--max-read-bandwidth", fmt.Sprintf("%dMB", mb), "--cache-size", fmt.Sprint(d.cacheBytes())}
}

// prepareMixes makes raw and encoded copies of the images, none of them in the page cache,
// and a manifest and an index for each mix.
func (s *setup) prepareMixes(ctx context.Context, p pipeline) (d mixData, err error) {
	set := p.set(s)
	if err := s.need(ctx, set); err != nil {
		return d, err
	}
	s.progress.step("copying images", 0, 1)
	d.dir, d.pages = filepath.Join(s.work, p.name), filepath.Join(s.work, p.name, "pages")
	n := min(p.images, set.images/p.batch*p.batch)
	if n == 0 {
		return d, fmt.Errorf("%d images are less than a batch", set.images)
	}
	for k := range n {
		file := set.files[k*set.images/n]
		path, err := filepath.Rel(set.dir, file)
		if err != nil {
			return d, err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return d, err
		}
		for _, copy := range []string{filepath.Join(d.dir, "encoded", path), filepath.Join(d.pages, path)} {
			if err := os.MkdirAll(filepath.Dir(copy), 0o755); err != nil {
				return d, err
			}
			if err := os.WriteFile(copy, content, 0o644); err != nil {
				return d, err
			}
		}
		d.encoded += int64(len(content))
		d.paths = append(d.paths, filepath.Join("encoded", path))
		d.raw = append(d.raw, filepath.Join("raw", strings.TrimSuffix(path, filepath.Ext(path))+".bmp"))
	}
	s.progress.step("making raw copies", 0, 1)
	if err := s.command(ctx, "convert", "--raw-ratio", "1", filepath.Join(d.dir, "encoded"), filepath.Join(d.dir, "raw")); err != nil {
		return d, err
	}
	for tenth := range d.mixes {
		if d.mixes[tenth], err = s.writeMix(ctx, &d, float64(tenth)/tenths); err != nil {
			return d, err
		}
	}
	if err := s.command(ctx, "index", d.pages); err != nil {
		return d, err
	}
	return d, dropPages(d.dir)
}

// writeMix writes the manifest of a mix and its index. Raw images are spread evenly.
func (s *setup) writeMix(ctx context.Context, d *mixData, raw float64) (manifest string, err error) {
	manifest = filepath.Join(d.dir, fmt.Sprintf("raw-%.4f.csv", raw))
	text := []byte("path\n")
	for k := range d.paths {
		path := d.paths[k]
		if int(float64(k+1)*raw+0.5) > int(float64(k)*raw+0.5) {
			path = d.raw[k]
		}
		text = fmt.Appendf(text, "%s\n", path)
	}
	if err := os.WriteFile(manifest, text, 0o644); err != nil {
		return "", err
	}
	return manifest, s.command(ctx, "index", manifest)
}

// A mixResult holds the results of a pipeline's rivals at one bandwidth.
type mixResult struct {
	pipeline   pipeline
	bandwidth  int
	pageCache  *rival
	impossible error // why there is no pageCache
	static     *rival
	mixes      [tenths + 1]*rival
	chosen     *rival // by the profiler
}

// mixesAt lets all rivals take turns at one bandwidth.
func (s *setup) mixesAt(ctx context.Context, p pipeline, d mixData, mb int) (r mixResult, err error) {
	r = mixResult{pipeline: p, bandwidth: mb}
	limited := d.limits(mb)

	var all []*rival
	defer func() {
		for _, one := range all {
			err = errors.Join(err, one.end(s))
		}
	}()
	start := func(name string, raw float64, group *cgroup, dataset string, flags ...string) (*rival, error) {
		s.progress.step(fmt.Sprintf("%s at %d MB/s, first epoch", p.name, mb), len(all), tenths+4)
		one, err := s.newRival(ctx, group, dataset, append(p.mountFlags(), flags...)...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		one.name, one.raw = name, raw
		all = append(all, one)
		return one, nil
	}
	if r.pageCache, r.impossible = s.pageCacheRival(d, mb, start); r.impossible != nil {
		r.pageCache = nil
	}
	if r.static, err = start("static cache (CoorDL)", 0, nil, d.mixes[0], slices.Concat(limited, []string{"--cache-policy", "static"})...); err != nil {
		return r, err
	}
	for tenth, manifest := range d.mixes {
		raw := float64(tenth) / tenths
		if r.mixes[tenth], err = start("constant cache, "+mixName(raw), raw, nil, manifest, limited...); err != nil {
			return r, err
		}
	}
	// The profiler goes last, so that it sees the machine under the same conditions as its
	// rivals.
	s.progress.step(fmt.Sprintf("profiling %s at %d MB/s", p.name, mb), 0, 1)
	chosen, err := s.profile(ctx, p, d, mb)
	if err != nil {
		return r, err
	}
	manifest, err := s.writeMix(ctx, &d, chosen)
	if err != nil {
		return r, err
	}
	if r.chosen, err = start("constant cache, the profiler's "+mixName(chosen), chosen, nil, manifest, limited...); err != nil {
		return r, err
	}
	return r, s.trainInTurns(ctx, fmt.Sprintf("%s at %d MB/s, taking turns", p.name, mb), all)
}

func (s *setup) trainInTurns(ctx context.Context, what string, all []*rival) error {
	for i := range s.rounds {
		s.progress.step(what, i, s.rounds)
		for _, one := range all {
			if err := one.turn(ctx); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
		}
	}
	for _, one := range all {
		if err := one.count(); err != nil {
			return err
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
func (s *setup) profile(ctx context.Context, p pipeline, d mixData, mb int) (float64, error) {
	args := slices.Concat([]string{"profile", "--json", "--work", s.work}, d.limits(mb), p.mountFlags(), []string{d.mixes[0]})
	cmd := exec.CommandContext(ctx, s.batchfs, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("batchfs profile: %w", err)
	}
	var answer struct {
		RawRatio float64 `json:"raw_ratio"`
	}
	return answer.RawRatio, json.Unmarshal(out, &answer)
}

// pageCacheRival reads through the page cache in a control group. The group limits reads
// from disk, but not from the page cache, and allows the page cache as much memory as the
// other rivals have for their caches. The error says why that is impossible here.
func (s *setup) pageCacheRival(d mixData, mb int, start func(string, float64, *cgroup, string, ...string) (*rival, error)) (*rival, error) {
	group, err := newCgroup("batchfs-bench-" + strconv.Itoa(os.Getpid()))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(group.limitReads(d.pages, int64(mb)*1e6), dropPages(d.pages)); err != nil {
		return nil, errors.Join(err, group.remove())
	}
	one, err := start("page cache", 0, group, d.pages, "--io", "buffered", "--cache-size", "0")
	if err != nil {
		return nil, errors.Join(err, group.remove())
	}
	// The daemon has allocated its own memory by now.
	return one, group.limitFiles(d.cacheBytes())
}

// newRival mounts and reads the first epoch, which finds all caches empty.
func (s *setup) newRival(ctx context.Context, group *cgroup, dataset string, flags ...string) (*rival, error) {
	m, err := s.start(ctx, group, dataset, flags...)
	if err != nil {
		return nil, err
	}
	one := &rival{group: group}
	if one.training, err = newTraining(m, throughput.Mapped); err == nil {
		_, err = one.training.Take(ctx, one.training.Batches)
		m.Pause()
	}
	if err != nil {
		return nil, errors.Join(err, m.Unmount(s.batchfs))
	}
	return one, nil
}

// turn lets the rival train for one turn.
func (one *rival) turn(ctx context.Context) error {
	t := one.training
	t.Mount.Resume()
	defer t.Mount.Pause()
	if _, err := t.Take(ctx, throughput.Ahead); err != nil {
		return err
	}
	before, err := one.deviceBytes()
	if err != nil {
		return err
	}
	began, first := time.Now(), t.Next
	for t.Next-first < throughput.Ahead || time.Since(began) < turn {
		if _, err := t.Take(ctx, 1); err != nil {
			return err
		}
		if one.group != nil {
			now, err := one.deviceBytes()
			if err != nil {
				return err
			}
			one.device, before = append(one.device, float64(now-before)), now
		}
	}
	images := float64(t.Next-first) * float64(t.Samples) / float64(t.Batches)
	one.rates = append(one.rates, images/time.Since(began).Seconds())
	return nil
}

// count takes the rival's figures of storage and cache.
func (one *rival) count() (err error) {
	t := one.training
	if one.group != nil {
		one.spread = spread{batch: t.Samples / t.Batches, bytes: distributionOf(one.device)}
		return nil
	}
	t.Mount.Resume()
	defer t.Mount.Pause()
	one.spread, err = spreadOf(t.Mount, t.Samples/t.Batches)
	return err
}

// deviceBytes is the number of bytes the daemon has read from disk so far.
func (one *rival) deviceBytes() (n int64, err error) {
	if one.group == nil {
		return 0, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", one.training.Mount.Cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "\nread_bytes: ")
	_, err = fmt.Sscan(rest, &n)
	return n, err
}

func (one *rival) end(s *setup) error {
	err := one.training.Mount.Unmount(s.batchfs)
	if one.group != nil {
		err = errors.Join(err, one.group.remove())
	}
	return err
}

// mixName writes a mix as Liquid does: encoded to raw.
func mixName(raw float64) string { return fmt.Sprintf("%.3g:%.3g", tenths*(1-raw), tenths*raw) }

// best is the fastest of the 11 mixes.
func (r *mixResult) best() *rival {
	return slices.MaxFunc(r.mixes[:], func(a, b *rival) int { return cmp.Compare(median(a.rates), median(b.rates)) })
}

// rows returns the result's rows of the table.
func (r *mixResult) rows() (rows []row) {
	where := fmt.Sprintf("%s, storage of %d MB/s: ", r.pipeline.name, r.bandwidth)
	if r.pageCache == nil {
		rows = append(rows, row{What: where + "page cache", Skipped: r.impossible.Error()})
	}
	for _, one := range slices.Concat([]*rival{r.pageCache, r.static}, r.mixes[:], []*rival{r.chosen}) {
		if one != nil {
			rows = append(rows, measured(where+one.name, "images/s", one.rates, one.spread.String()))
		}
	}
	encoded, best := r.mixes[0], r.best()
	gain := measured(where+"best mix / encoded only", "x", ratios(best.rates, encoded.rates), "best is "+mixName(best.raw))
	if r.pipeline.wanted > 0 && r.bandwidth >= toSpare {
		gain = gain.atLeast(r.pipeline.wanted)
	}
	note := fmt.Sprintf("%s / %s", mixName(r.chosen.raw), mixName(best.raw))
	return append(rows, measured(where+"the profiler's mix / best of 11", "x", ratios(r.chosen.rates, best.rates), note).atLeast(0.95), gain)
}

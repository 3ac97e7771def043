package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/batchfs/batchfs/internal/throughput"
	"github.com/batchfs/batchfs/shard"
)

// The scenarios liquid/... measure the claims of Liquid (Baek et al., "Liquid: Mix-and-Match
// Multiple Image Formats to Balance DNN Training Pipeline", APSys 2023): mixes of images in several
// forms keep processors and storage equally busy, and are faster than any form alone. Its forms are
// encoded and raw images; packed ones are between them. The scenarios are in liquid_rows.go.
//
// All rivals read the same images, and make the same batches. Files are in the page cache, behind a
// mount's own limit of bandwidth: so different machines can be imitated by storage of any speed,
// whatever disk this one has. Liquid is represented by a build of batchfs with the tag libraries.
// Its only difference is that libjpeg-turbo and libspng decode: reading, cropping, resizing and
// serving are as fast as ours.
//
// A model (liquid_model.go) says which mixes are measured. It needs to know what an image takes in
// each form, so that is measured first, without a limit.

// A pipeline is a dataset and the transforms that training applies to it.
type pipeline struct {
	name          string
	set           func(*bench) *pictures
	images        int // at most, evenly chosen from the set; a multiple of batch
	batch         int
	height, width int             // of random crops; 0: whole images
	three         map[int]float64 // wanted: the best of three forms over the best of two, by MB/s of storage
	liquid        float64         // wanted: our best over Liquid's, where storage is not scarce
	steps         []time.Duration // of programs, for each batch
}

// transform are flags that make a mount serve what the pipeline trains with.
func (p *pipeline) transform() []string {
	if p.height == 0 {
		return ownSize
	}
	return []string{"--resize", "random-resized-crop", "--size", fmt.Sprintf("%dx%d", p.height, p.width), "--flip", "0.5"}
}

const ms = time.Millisecond

var pipelines = []*pipeline{
	{name: "JPEG", set: photos, images: 1024, batch: 64, height: 224, width: 224, liquid: 2,
		three: map[int]float64{600: 1.15, 1200: 1.6},
		steps: []time.Duration{5 * ms, 10 * ms, 20 * ms, 40 * ms}},
	{name: "PNG 2048x1024", set: cityscapes, images: 64, batch: 16, height: 512, width: 1024,
		three: map[int]float64{600: 1.12, 1200: 1.35},
		steps: []time.Duration{20 * ms, 50 * ms, 100 * ms, 200 * ms}},
	{name: "PNG photos", set: (*bench).real, images: 512, batch: 32,
		three: map[int]float64{600: 1.12, 1200: 1.35},
		steps: []time.Duration{10 * ms, 20 * ms, 40 * ms, 80 * ms}},
}

const (
	enough  = 600 // MB/s: from here on, storage is not scarce on two processors
	turnFor = 400 * time.Millisecond
)

// A setting is the machine that a mount has.
type setting struct {
	mb     int     // of storage per second; 0: no limit
	cpus   int     // processors
	cached float64 // size of the cache, relative to that of the encoded images
}

func (s setting) String() string {
	storage, on := "no limit", "processors"
	if s.mb > 0 {
		storage = fmt.Sprintf("%d MB/s", s.mb)
	}
	if s.cpus == 1 {
		on = "processor"
	}
	return fmt.Sprintf("%s, %d %s", storage, s.cpus, on)
}

// processors are the numbers of processors that are measured.
func processors() (list []int) {
	for _, n := range []int{1, 2} {
		if len(someCPUs(n)) == n {
			list = append(list, n)
		}
	}
	return list
}

// A mixData has a pipeline's images in all forms, and what is known of them.
type mixData struct {
	*pipeline
	dir     string // has a folder for each form
	encoded int64  // bytes
	paths   []string
	labels  []int
	takes   map[kind]takes
}

// A kind says what distinguishes mounts that take different amounts for an image.
type kind struct {
	program string
	cpus    int
}

func (d *mixData) of(f shard.Cost) string { return filepath.Join(d.dir, f.String()) }
func (d *mixData) manifest(m mix) string {
	return filepath.Join(d.dir, fmt.Sprintf("mix-%v.csv", [shard.NumCosts]float64(m)))
}
func (d *mixData) row(s string) string { return d.name + ", " + s + ": " }

// mixed yields the images of each pipeline, if there are any. What they take is measured when they
// are first needed.
func (b *bench) mixed(yield func(*mixData) bool) {
	if b.mixes == nil {
		b.mixes = map[*pipeline]*mixData{}
	}
	for _, p := range pipelines {
		set := p.set(b)
		if set == nil {
			b.print(skipped(noPhotos, p.name))
			continue
		}
		if b.mixes[p] == nil {
			d := prepareMixes(b, p, set)
			measureTakes(b, d)
			b.mixes[p] = d
		}
		if !yield(b.mixes[p]) {
			return
		}
	}
}

// prepareMixes makes copies of the images in all forms.
func prepareMixes(b *bench, p *pipeline, set *pictures) *mixData {
	d := &mixData{pipeline: p, dir: filepath.Join(b.work, "mixes "+p.name), takes: map[kind]takes{}}
	n := min(p.images, set.images) / p.batch * p.batch
	if n == 0 {
		check(fmt.Errorf("%s: %d images are less than a batch", p.name, set.images))
	}
	for k := range n {
		path := set.Path(k * set.images / n)
		content := must(os.ReadFile(filepath.Join(set.Root(), path)))
		write(filepath.Join(d.of(shard.Encoded), path), content)
		d.encoded += int64(len(content))
		d.paths, d.labels = append(d.paths, path), append(d.labels, set.Label(k*set.images/n))
	}
	for f, ratio := range map[shard.Cost]string{shard.Packed: "--packed-ratio", shard.Raw: "--raw-ratio"} {
		b.command("convert", ratio, "1", d.of(shard.Encoded), d.of(f))
	}
	return d
}

// writeMix writes the manifest of a mix and its index, unless they exist, and returns the
// manifest's path.
func (d *mixData) writeMix(b *bench, m mix) (manifest string) {
	manifest = d.manifest(m)
	if _, err := os.Stat(manifest); errors.Is(err, os.ErrNotExist) {
		list, ends := m.forms(len(d.paths)), [shard.NumCosts]string{"", ".bfs", ".bmp"}
		b.manifestOf(manifest, "path,label", len(list), func(k int) string {
			return fmt.Sprintf("%s/%s%s,%d", list[k], d.paths[k], ends[list[k]], d.labels[k])
		})
	}
	return manifest
}

// measureTakes finds out what an image takes in each form, with our decoders and with those of
// Liquid.
func measureTakes(b *bench, d *mixData) {
	for _, n := range processors() {
		f := &field{bench: b, d: d, s: setting{cpus: n}}
		for _, form := range allForms {
			f.add(f.ours(alone(form)))
		}
		library := f.add(f.liquid(alone(shard.Encoded)))
		r := b.hold(d.row("what images take"), 0, f.sides...)
		of := func(i int) (bytes, seconds float64) {
			return 1e6 * r.of(bytesMean, i).last().median() / float64(d.batch), 1 / r.of(rate, i).median()
		}
		var t takes
		for i, form := range allForms {
			t.bytes[form], t.seconds[form] = of(i)
		}
		d.takes[kind{b.batchfs, n}] = t
		t.bytes[shard.Encoded], t.seconds[shard.Encoded] = of(library)
		d.takes[kind{b.libraries, n}] = t
		for i, what := range append(slices.Clone(formNames), "encoded, decoded by libraries") {
			bytes, _ := of(i)
			b.print(r.row(d.row(f.s.String())+what, rate, i).noted("%.1f KB of storage an image", bytes/1e3))
		}
	}
}

// A rival is a way to get batches: a mix, and what decodes and caches it.
type rival struct {
	program string
	mix     mix
	policy  string // of the cache
}

// ours is a rival with our decoders, whose cache packs what it keeps where that helps.
func (f *field) ours(m mix) rival { return rival{f.batchfs, m, "constant"} }

// liquid is a rival with the decoders and the cache of Liquid.
func (f *field) liquid(m mix) rival { return rival{f.libraries, m, "constant"} }

// coordl is a rival with the decoders and the cache of CoorDL.
func (f *field) coordl() rival { return rival{f.libraries, alone(shard.Encoded), "static"} }

// A field has rivals that take turns at one setting. Equal ones are one contender.
type field struct {
	*bench
	d       *mixData
	s       setting
	entered []rival
	sides   []contender // the first ones are those of entered
}

// usualField is a field where storage is not scarce, with memory for a part of the images.
func usualField(b *bench, d *mixData) *field {
	return &field{bench: b, d: d, s: setting{mb: enough, cpus: len(processors()), cached: cachedShare}}
}

func (f *field) title() string { return f.d.name + ", " + f.s.String() }

// takes is what an image takes of a mount of this program.
func (f *field) takes(program string) takes { return f.d.takes[kind{program, f.s.cpus}] }

// add adds a rival, and returns which contender it is.
func (f *field) add(r rival, steps ...time.Duration) int {
	if i := slices.Index(f.entered, r); i >= 0 {
		return i
	}
	f.entered = append(f.entered, r)
	f.sides = append(f.sides, contender{start: func() turn { return f.start(r, steps) }})
	return len(f.sides) - 1
}

// start mounts a rival's mix, and reads the first epoch.
func (f *field) start(r rival, steps []time.Duration) turn {
	m := mount{
		dataset: f.d.writeMix(f.bench, r.mix), flags: f.flags(r), program: r.program,
		pin: someCPUs(f.s.cpus), time: turnFor,
	}
	m.also = func(t *throughput.Training, found figures) {
		check(spreadOf(t.Mount, f.d.batch, found))
		for _, step := range steps {
			found[atStep(step)] = f.imagesFor(t, step)
		}
	}
	return f.training(m).start()
}

// atStep is the figure of imagesFor.
func atStep(step time.Duration) figure { return figure{"with " + step.String(), "images/s", 1} }

// imagesFor reads batches like a program that takes a given time for each, and measures how many
// images a second it gets.
func (f *field) imagesFor(t *throughput.Training, step time.Duration) float64 {
	r := &reader{Training: t, pause: step}
	must(t.Take(f.ctx, throughput.Ahead)) // made before at another pace
	took := f.readAtOnce([]*reader{r}, func(_ int, took time.Duration) bool { return took >= turnFor })
	return r.images() / took.Seconds()
}

// flags are those of a rival's mount.
func (f *field) flags(r rival) []string {
	size := fmt.Sprint(int64(f.s.cached * float64(f.d.encoded)))
	flags := append(shuffled(f.d.batch, f.d.transform()...), "--io", "buffered", "--cache-size", size, "--cache-policy", r.policy)
	if r.program == f.libraries {
		flags = append(flags, "--cache-form", "encoded")
	}
	if f.s.mb > 0 {
		flags = append(flags, "--max-read-bandwidth", fmt.Sprintf("%dMB", f.s.mb))
	}
	return flags
}

// daliEpochs is the number of epochs after which DALI's own memory has nearly stopped growing.
const daliEpochs = 8

// dali is NVIDIA DALI with encoded images, in a control group that has the same storage, and memory
// for what DALI itself takes and for a page cache of the same size. What it takes is measured
// first, while the page cache does not count for its group; it still grows a little after that.
func (f *field) dali() contender {
	return contender{optional: true, start: func() turn {
		files := filepath.Join(f.d.dir, "dali") // whose pages nobody else reads
		check(errors.Join(os.RemoveAll(files), os.CopyFS(files, os.DirFS(f.d.of(shard.Encoded)))))
		group, python := inGroup(f.bench, f.python)
		epoch := max(2, len(f.d.paths)/f.d.batch)
		begin := func() (c *consumer) {
			defer func(outside string) { f.python = outside }(f.python)
			f.python = python
			onCPUs(someCPUs(f.s.cpus), func() {
				c = f.consume("dali.py", "--dataset", files,
					"--workers", strconv.Itoa(f.s.cpus), "--batch-size", strconv.Itoa(f.d.batch),
					"--size", strconv.Itoa(f.d.height), "--width", strconv.Itoa(f.d.width))
			})
			c.turn(daliEpochs * epoch)
			return c
		}
		begin().stop()
		taken := group.peakMemory()
		dropPages(files)
		check(group.limitReads(files, int64(f.s.mb)*1e6))
		check(group.limitMemory(taken + taken/16 + int64(f.s.cached*float64(f.d.encoded))))
		c := begin()
		return func() figures { return c.turn(epoch) }
	}}
}

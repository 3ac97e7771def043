package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/batchfs/batchfs/internal/chart"
	"github.com/batchfs/batchfs/shard"
)

// Bandwidths of storage at which we measure, in MB/s: for mixes on disk, and for comparisons with
// Liquid.
var (
	storages = []int{50, 150, 600, 1200, 3000}
	against  = []int{50, 150, 200, 400, 600, 1200, 3000}
)

const (
	usual     = 2   // processors, of which most rows are
	many      = 16  // processors, for which there is only the model
	likeModel = 0.9 // wanted: what is measured over what the model says
	tenths    = 10  // in which Liquid's mixes are
	fine      = 100 // in which ours are
)

// tenthsRaw is a mix of Liquid.
func tenthsRaw(n int) mix {
	return mix{shard.Encoded: float64(tenths-n) / tenths, shard.Raw: float64(n) / tenths}
}

// mixesOnDisk compares mixes of images on storage, without a cache: the best one of two forms, as
// Liquid has them, and the best one of three, both decoded by us.
func mixesOnDisk(b *bench) {
	var goodputs, balances []chart.Diagram
	for d := range b.mixed {
		for _, n := range processors() {
			for _, mb := range storages {
				f := &field{bench: b, d: d, s: setting{mb: mb, cpus: n}}
				if n == usual && mb == enough {
					balances = append(balances, f.balance())
					goodputs = append(goodputs, f.onDisk(true))
				} else {
					f.onDisk(false)
				}
			}
		}
		d.computed(b, 0, "best of three forms / best of two", func(t, _ takes, s setting) float64 {
			return t.rate(t.best(allForms, s, fine), s) / t.rate(t.best(liquidForms, s, fine), s)
		})
	}
	b.draw(goodputs, "goodput")
	b.draw(balances, "loading-and-decoding")
}

// onDisk compares the mixes at one setting. If forms alone are asked for, it also shows how busy
// each of them keeps processors, storage, and a program that is as fast as the best mix.
func (f *field) onDisk(each bool) (used chart.Diagram) {
	t := f.takes(f.batchfs)
	two, three := t.best(liquidForms, f.s, fine), t.best(allForms, f.s, fine)
	encoded, i, k := f.add(f.ours(alone(shard.Encoded))), f.add(f.ours(two)), f.add(f.ours(three))
	var at [shard.NumCosts]int
	if each {
		for _, form := range allForms {
			at[form] = f.add(f.ours(alone(form)))
		}
	}
	where := f.d.row(f.s.String())
	r := f.hold(where+"mixes", 0, f.sides...)
	gain := r.ratio(where+"best of three forms / best of two", rate, k, i)
	gain = gain.noted("%s; %v / %v; the model has %.2f", gain.note, three, two, t.rate(three, f.s)/t.rate(two, f.s))
	if f.s.cpus == usual {
		gain = gain.atLeast(f.d.three[f.s.mb])
	}
	f.print(
		r.row(where+"encoded", rate, encoded),
		r.row(where+"best of encoded and raw", rate, i).noted("%v", two),
		r.row(where+"best of encoded, packed and raw", rate, k).noted("%v", three),
		gain,
	)
	if !each {
		return used
	}
	best := 0.0
	for i := range f.sides {
		best = max(best, r.of(rate, i).median())
	}
	bars := []chart.Bars{{Name: "processors"}, {Name: "storage"}, {Name: "program"}}
	for form, i := range at {
		images := r.of(rate, i).median()
		if shard.Cost(form) != shard.Encoded {
			f.print(r.row(where+shard.Cost(form).String(), rate, i))
		}
		for k, share := range []float64{
			images * t.seconds[form], images * t.bytes[form] / (1e6 * float64(f.s.mb)), images / best,
		} {
			bars[k].Values = append(bars[k].Values, 100*share)
		}
	}
	return chart.Diagram{Title: f.title(), Y: "% of what each could do", Groups: formNames, Bars: bars}
}

// draw draws a picture of some diagrams, if there are any.
func (b *bench) draw(diagrams []chart.Diagram, name string) {
	if len(diagrams) > 0 {
		path := filepath.Join(b.plots, name+".svg")
		var picture bytes.Buffer
		check(chart.Draw(&picture, "svg", 11, 8, diagrams...))
		write(path, picture.Bytes())
		fmt.Fprintln(os.Stderr, "bench: drew", path)
	}
}

// Names of rivals in pictures.
const nameCoorDL, nameLiquid, nameOurs = "CoorDL's cache", "Liquid's best mix", "ours"

// rivals compares batchfs with CoorDL and Liquid, which have memory for the same share of the
// encoded images, cachedShare, and with DALI.
func rivals(b *bench) {
	var pictures []chart.Diagram
	for d := range b.mixed {
		// The throughput on storage of each bandwidth.
		shown := chart.Diagram{Title: d.name, Y: "x CoorDL's cache", X: fmt.Sprintf("MB/s of storage, %d processors", usual)}
		shown.Bars = []chart.Bars{{Name: nameLiquid}, {Name: nameOurs}}
		for _, n := range processors() {
			settings := against
			if n != usual {
				settings = storages
			}
			for _, mb := range settings {
				f := &field{bench: b, d: d, s: setting{mb: mb, cpus: n, cached: cachedShare}}
				f.againstAll(&shown)
			}
		}
		pictures = append(pictures, shown)
		d.computed(b, cachedShare, "ours / Liquid's best mix", func(ours, theirs takes, s setting) float64 {
			return ours.rate(ours.best(allForms, s, fine), s) / theirs.rate(theirs.best(liquidForms, s, tenths), s)
		})
	}
	b.draw(pictures, "by-machine")
}

func (f *field) againstAll(shown *chart.Diagram) {
	ours, theirs := f.takes(f.batchfs), f.takes(f.libraries)
	liquid, best := theirs.best(liquidForms, f.s, tenths), ours.best(allForms, f.s, fine)
	near, static := []int{f.add(f.liquid(liquid))}, -1
	if f.s.cpus == usual {
		static = f.add(f.coordl())
		// The mixes next to it are measured, too: the model may be wrong by a tenth, which must not
		// count against Liquid.
		for _, n := range []int{-1, 1} {
			if n += int(tenths*liquid[shard.Raw] + 0.5); n >= 0 && n <= tenths {
				near = append(near, f.add(f.liquid(tenthsRaw(n))))
			}
		}
	}
	own, dali := f.add(f.ours(best)), -1
	if f.s.cpus == usual && f.s.mb == enough {
		dali = len(f.sides)
		f.sides = append(f.sides, f.dali())
	}
	where, model := f.d.row(f.s.String()), ours.rate(best, f.s)/theirs.rate(liquid, f.s)
	r := f.hold(where+"rivals", 0, f.sides...)
	fastest := r.fastest(near)
	if static >= 0 {
		f.print(r.row(where+"encoded, CoorDL's cache", rate, static).noted("%s", r.spread(static)))
		shown.Groups = append(shown.Groups, strconv.Itoa(f.s.mb))
		for k, i := range []int{fastest, own} {
			shown.Bars[k].Values = append(shown.Bars[k].Values, r.of(rate, i).over(r.of(rate, static)).median())
		}
	}
	if dali >= 0 {
		f.print(r.row(where+"encoded, NVIDIA DALI", rate, dali), r.ratio(where+"ours / NVIDIA DALI", rate, own, dali))
	}
	gain := r.ratio(where+"ours / Liquid's best mix", rate, own, fastest)
	gain = gain.noted("%s; the model has %.2f", gain.note, model)
	if f.s.mb >= enough && f.s.cpus == usual {
		gain = gain.atLeast(f.d.liquid)
	}
	asModel := measured(where+"    / what the model has for them", "x", gain.series.times(1/model))
	if f.s.mb >= 200 && f.s.mb <= 1200 && f.s.cpus == usual {
		asModel = asModel.atLeast(likeModel)
	}
	f.print(
		r.row(where+"Liquid's best mix", rate, fastest).noted("%v; %s", f.entered[fastest].mix, r.spread(fastest)),
		r.row(where+"ours", rate, own).noted("%v; %s", best, r.spread(own)),
		gain, asModel,
	)
}

// mixes measures all mixes of three forms, and those of Liquid, in some steps, and whether the
// profiler finds the best one.
func mixes(b *bench) {
	var pictures []chart.Diagram
	for d := range b.mixed {
		pictures = append(pictures, usualField(b, d).overTheMix())
	}
	b.draw(pictures, "throughput-over-the-mix")
}

func (f *field) overTheMix() chart.Diagram {
	const steps = 5
	old, own := f.takes(f.libraries), f.takes(f.batchfs)
	var ours []int
	for _, m := range mixesOf(allForms, steps) {
		ours = append(ours, f.add(f.ours(m)))
	}
	ours = append(ours, f.add(f.ours(own.best(allForms, f.s, fine))))
	for _, m := range mixesOf(liquidForms, steps) {
		f.add(f.liquid(m))
	}
	var profiled mix
	f.sides = append(f.sides, contender{start: func() turn {
		profiled = f.profile()
		return f.start(f.ours(profiled), nil)
	}})
	where := f.d.row(f.s.String())
	r := f.hold(where+"over the mix", 0, f.sides...)
	for i, side := range f.entered {
		by := ""
		if side.program == f.libraries {
			by = ", decoded by libraries"
		}
		f.print(r.row(where+side.mix.String()+by, rate, i))
	}
	best := r.fastest(ours)
	found := r.ratio(where+"the profiler's mix / best of all measured", rate, len(f.sides)-1, best).atLeast(0.95)
	f.print(found.noted("%v / %v; %s", profiled, f.entered[best].mix, found.note))

	p := chart.Diagram{Title: f.title(), X: "share of raw, or packed, images", Y: "images/s"}
	for _, line := range []struct {
		chart.Curve
		of func(m mix) rival
		takes
		second shard.Cost
	}{
		{chart.Curve{Name: "encoded and raw, by libraries"}, f.liquid, old, shard.Raw},
		{chart.Curve{Name: "encoded and raw, by batchfs", Color: 2}, f.ours, own, shard.Raw},
		{chart.Curve{Name: "encoded and packed, by batchfs", Color: 1}, f.ours, own, shard.Packed},
	} {
		measured, model := line.Curve, line.Curve
		measured.Dots, model.Line, model.Name = true, chart.Dashed, line.Name+": model"
		for _, m := range mixesOf([]shard.Cost{line.second, shard.Encoded}, steps) {
			measured.Add(m[line.second], r.of(rate, f.add(line.of(m))).median())
			model.Add(m[line.second], line.rate(m, f.s))
		}
		p.Curves = append(p.Curves, measured, model)
	}
	return p
}

// profile asks the profiler for the best mix.
func (f *field) profile() mix {
	encoded := f.ours(alone(shard.Encoded))
	args := append([]string{"profile", "--json", "--work", f.work}, f.flags(encoded)...)
	args = append(args, f.d.writeMix(f.bench, encoded.mix))
	var answer struct {
		Raw    float64 `json:"raw_ratio"`
		Packed float64 `json:"packed_ratio"`
	}
	onCPUs(someCPUs(f.s.cpus), func() { check(json.Unmarshal(f.command(args...), &answer)) })
	return mix{1 - answer.Packed - answer.Raw, answer.Packed, answer.Raw}
}

// endToEnd has programs consume the batches that take some time for each.
func endToEnd(b *bench) {
	var pictures []chart.Diagram
	for d := range b.mixed {
		pictures = append(pictures, usualField(b, d).consumed())
	}
	b.draw(pictures, "end-to-end")
}

func (f *field) consumed() chart.Diagram {
	ours, theirs := f.takes(f.batchfs), f.takes(f.libraries)
	type namedRival struct {
		name string
		rival
	}
	sides := []namedRival{ // the best mixes by the model
		{nameCoorDL, f.coordl()},
		{nameLiquid, f.liquid(theirs.best(liquidForms, f.s, tenths))},
		{nameOurs, f.ours(ours.best(allForms, f.s, fine))},
	}
	var at []int
	for _, side := range sides {
		at = append(at, f.add(side.rival, f.d.steps...))
	}
	where := f.d.row(f.s.String())
	r := f.hold(where+"end to end", 0, f.sides...)
	program := chart.Curve{Name: "the program alone", Color: len(sides), Line: chart.Dashed}
	for _, step := range f.d.steps {
		program.Add(step.Seconds()*1e3, float64(f.d.batch)/step.Seconds())
	}
	curves := []chart.Curve{program}
	for i, side := range sides {
		c := chart.Curve{Name: side.name, Color: (i + 2) % len(sides), Dots: true}
		for k, step := range f.d.steps {
			images := r.of(atStep(step), at[i])
			c.Add(program.Points[k].X, images.median())
			what := fmt.Sprintf("%sa program of %v a batch, %s", where, step, side.name)
			f.print(measured(what, "images/s", images).noted("of %.0f; %v", program.Points[k].Y, side.mix))
		}
		curves = append(curves, c)
	}
	for _, step := range f.d.steps {
		what := fmt.Sprintf("%sa program of %v a batch, ours / Liquid's", where, step)
		f.print(r.ratio(what, atStep(step), at[2], at[1]))
	}
	return chart.Diagram{Title: f.title(), X: "ms of the program for a batch", Y: "images/s", Curves: curves}
}

// computed prints a ratio that the model has for many processors.
func (d *mixData) computed(b *bench, cached float64, what string, of func(ours, theirs takes, s setting) float64) {
	n := len(processors())
	ours, theirs := d.takes[kind{b.batchfs, n}], d.takes[kind{b.libraries, n}]
	ours, theirs = ours.onProcessors(many/float64(n)), theirs.onProcessors(many/float64(n))
	for _, mb := range storages {
		s := setting{mb: mb, cpus: many, cached: cached}
		b.print(measured(d.row(s.String())+what, "x", numbers(of(ours, theirs, s))).noted("computed by the model"))
	}
}

// balance shows how fast mixes of each pair of forms are loaded and decoded, by the model.
func (f *field) balance() chart.Diagram {
	t := f.takes(f.batchfs)
	var curves []chart.Curve
	for color, pair := range [][]shard.Cost{liquidForms, {shard.Encoded, shard.Packed}, {shard.Packed, shard.Raw}} {
		name := pair[0].String() + " : " + pair[1].String()
		loading := chart.Curve{Name: name + ", loading", Color: color}
		decoding := chart.Curve{Name: name + ", decoding", Color: color, Line: chart.Dashed}
		for n := range tenths + 1 {
			share := float64(n) / tenths
			var m mix
			m[pair[0]], m[pair[1]] = 1-share, share
			loading.Add(share, 1/t.loading(m, f.s))
			decoding.Add(share, 1/t.decoding(m))
		}
		curves = append(curves, loading, decoding)
	}
	return chart.Diagram{Title: f.title(), X: "share of the second form", Y: "images/s", Log: true, Curves: curves}
}

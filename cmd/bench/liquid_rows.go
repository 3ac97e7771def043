package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/batchfs/batchfs/shard"
)

// Bandwidths of storage that are measured, in MB/s: those of mixes on disk, and those of
// comparisons with Liquid.
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

// bandwidths are those of a list that are measured: all, unless others are asked for.
func (o *options) bandwidths(list []int) []int {
	return slices.DeleteFunc(slices.Clone(list), func(mb int) bool {
		return len(o.storage) > 0 && !slices.Contains(o.storage, mb)
	})
}

// tenthsRaw is a mix of Liquid.
func tenthsRaw(n int) mix {
	return mix{shard.Encoded: float64(tenths-n) / tenths, shard.Raw: float64(n) / tenths}
}

// mixesOnDisk compares mixes of images on storage, without a cache: the best one of two forms, as
// Liquid has them, and the best one of three, both decoded by us.
func mixesOnDisk(ctx context.Context, b *bench) ([]contest, error) {
	var goodputs, balances []panel
	list, err := mixed(ctx, b, func(d *mixData) (list []contest) {
		for _, n := range processors() {
			for _, mb := range b.bandwidths(storages) {
				f := &field{bench: b, d: d, s: setting{mb: mb, cpus: n}}
				c := f.onDisk()
				if n == usual && mb == enough {
					balances = append(balances, f.balance())
					c = f.withForms(c, &goodputs)
				}
				list = append(list, c)
			}
		}
		const what = "best of three forms / best of two"
		return append(list, d.computed(b, 0, what, func(t, _ takes, l limit) float64 {
			return t.rate(t.best(allForms, l, fine), l) / t.rate(t.best(liquidForms, l, fine), l)
		}))
	})
	list = drawn(list, &goodputs, b.plots, "goodput")
	return drawn(list, &balances, b.plots, "loading-and-decoding"), err
}

func (f *field) onDisk() contest {
	t := f.takes(f.batchfs)
	l := f.s.limit(t)
	two, three := t.best(liquidForms, l, fine), t.best(allForms, l, fine)
	encoded, i, k := f.add(f.ours(alone(shard.Encoded))), f.add(f.ours(two)), f.add(f.ours(three))
	where := f.d.row(f.s.String())
	return contest{what: where + "mixes", contenders: f.sides, rows: func(r results) []row {
		gain := r.ratio(where+"best of three forms / best of two", rate, k, i)
		gain = gain.noted("%s; %v / %v; the model has %.2f", gain.note, three, two, t.rate(three, l)/t.rate(two, l))
		if wanted := f.d.three[f.s.mb]; wanted > 0 && f.s.cpus == usual {
			gain = gain.atLeast(wanted)
		}
		return []row{
			r.row(where+"encoded", rate, encoded),
			r.row(where+"best of encoded and raw", rate, i).noted("%v", two),
			r.row(where+"best of encoded, packed and raw", rate, k).noted("%v", three),
			gain,
		}
	}}
}

// withForms adds each form alone to a contest, with what it uses of processors, storage and of a
// program that is as fast as the best mix: the shares of what each could do.
func (f *field) withForms(c contest, pictures *[]panel) contest {
	t, at := f.takes(f.batchfs), [shard.NumCosts]int{}
	for _, form := range allForms {
		at[form] = f.add(f.ours(alone(form)))
	}
	rows := c.rows
	c.contenders, c.rows = f.sides, func(r results) []row {
		list := rows(r)
		best := 0.0
		for i := range f.sides {
			best = max(best, r.of(rate, i).median())
		}
		used := []bars{{name: "processors"}, {name: "storage"}, {name: "program"}}
		for form, i := range at {
			images := r.of(rate, i).median()
			if shard.Cost(form) != shard.Encoded {
				list = append(list, r.row(f.d.row(f.s.String())+shard.Cost(form).String(), rate, i))
			}
			for k, share := range []float64{
				images * t.seconds[form], images * t.bytes[form] / f.s.limit(t).bandwidth, images / best,
			} {
				used[k].values = append(used[k].values, 100*share)
			}
		}
		*pictures = append(*pictures, panel{title: f.title(), y: "% of what each could do", groups: formNames, bars: used})
		return list
	}
	return c
}

// rivals compares with CoorDL and Liquid, which have memory for cachedShare of the encoded images,
// as we have, and with DALI.
func rivals(ctx context.Context, b *bench) ([]contest, error) {
	var pictures []panel
	list, err := mixed(ctx, b, func(d *mixData) (list []contest) {
		shown := map[string]*bars{}
		for _, n := range processors() {
			settings := against
			if n != usual {
				settings = storages
			}
			for _, mb := range b.bandwidths(settings) {
				f := &field{bench: b, d: d, s: setting{mb: mb, cpus: n, cached: cachedShare}}
				list = append(list, f.againstAll(shown))
			}
		}
		model := d.computed(b, cachedShare, "ours / Liquid's best mix", func(ours, theirs takes, l limit) float64 {
			return ours.rate(ours.best(allForms, l, fine), l) / theirs.rate(theirs.best(liquidForms, l, tenths), l)
		})
		rows := model.rows
		model.rows = func(r results) []row {
			pictures = append(pictures, machines(b, d, shown))
			return rows(r)
		}
		return append(list, model)
	})
	return drawn(list, &pictures, b.plots, "by-machine"), err
}

// Names of rivals in pictures.
const nameCoorDL, nameLiquid, nameOurs = "CoorDL's cache", "Liquid's best mix", "ours"

// machines are bars of the throughput on storage of each bandwidth.
func machines(b *bench, d *mixData, shown map[string]*bars) panel {
	p := panel{title: d.name, y: "x CoorDL's cache", x: fmt.Sprintf("MB/s of storage, %d processors", usual)}
	for _, mb := range b.bandwidths(against) {
		p.groups = append(p.groups, strconv.Itoa(mb))
	}
	for _, name := range []string{nameLiquid, nameOurs} {
		if s := shown[name]; s != nil {
			p.bars = append(p.bars, *s)
		}
	}
	return p
}

func (f *field) againstAll(shown map[string]*bars) contest {
	ours, theirs := f.takes(f.batchfs), f.takes(f.libraries)
	l := f.s.limit(theirs)
	liquid, best := theirs.best(liquidForms, l, tenths), ours.best(allForms, f.s.limit(ours), fine)
	near, static := []int{f.add(f.liquid(liquid))}, -1
	if f.s.cpus == usual {
		static = f.add(f.coordl())
		// That the model may be wrong by a tenth is not at Liquid's cost.
		for _, n := range []int{-1, 1} {
			if n += int(tenths*liquid[shard.Raw] + 0.5); n >= 0 && n <= tenths {
				near = append(near, f.add(f.liquid(tenthsRaw(n))))
			}
		}
	}
	own := f.add(f.ours(best))
	dali := -1
	if f.s.cpus == usual && f.s.mb == enough {
		dali = len(f.sides)
		f.sides = append(f.sides, f.dali())
	}
	where, model := f.d.row(f.s.String()), ours.rate(best, f.s.limit(ours))/theirs.rate(liquid, l)
	return contest{what: where + "rivals", contenders: f.sides, rows: func(r results) (rows []row) {
		fastest := r.fastest(near)
		if static >= 0 {
			rows = append(rows, r.row(where+"encoded, CoorDL's cache", rate, static).noted("%s", r.spread(static)))
			for name, i := range map[string]int{nameLiquid: fastest, nameOurs: own} {
				if shown[name] == nil {
					shown[name] = &bars{name: name}
				}
				shown[name].values = append(shown[name].values, r.of(rate, i).over(r.of(rate, static)).median())
			}
		}
		if dali >= 0 {
			rows = append(rows,
				r.row(where+"encoded, NVIDIA DALI", rate, dali),
				r.ratio(where+"ours / NVIDIA DALI", rate, own, dali))
		}
		gain := r.ratio(where+"ours / Liquid's best mix", rate, own, fastest)
		gain = gain.noted("%s; the model has %.2f", gain.note, model)
		if f.d.liquid > 0 && f.s.mb >= enough && f.s.cpus == usual {
			gain = gain.atLeast(f.d.liquid)
		}
		asModel := measured(where+"    / what the model has for them", "x", gain.series.times(1/model))
		if f.s.mb >= 200 && f.s.mb <= 1200 && f.s.cpus == usual {
			asModel = asModel.atLeast(likeModel)
		}
		return append(rows,
			r.row(where+"Liquid's best mix", rate, fastest).noted("%v; %s", f.entered[fastest].mix, r.spread(fastest)),
			r.row(where+"ours", rate, own).noted("%v; %s", best, r.spread(own)),
			gain, asModel)
	}}
}

// mixes measures all mixes of three forms in some steps, those of Liquid, and whether the profiler
// finds the best one.
func mixes(ctx context.Context, b *bench) ([]contest, error) {
	var pictures []panel
	list, err := mixed(ctx, b, func(d *mixData) []contest {
		f := &field{bench: b, d: d, s: setting{mb: enough, cpus: len(processors()), cached: cachedShare}}
		return []contest{f.overTheMix(&pictures)}
	})
	return drawn(list, &pictures, b.plots, "throughput-over-the-mix"), err
}

func (f *field) overTheMix(pictures *[]panel) contest {
	const steps = 5
	old, own := f.takes(f.libraries), f.takes(f.batchfs)
	var ours []int
	for _, m := range mixesOf(allForms, steps) {
		ours = append(ours, f.add(f.ours(m)))
	}
	ours = append(ours, f.add(f.ours(own.best(allForms, f.s.limit(own), fine))))
	lines := []struct {
		curve
		of func(m mix) rival
		takes
		second shard.Cost
	}{
		{curve{name: "encoded and raw, by libraries"}, f.liquid, old, shard.Raw},
		{curve{name: "encoded and raw, by batchfs", color: 2}, f.ours, own, shard.Raw},
		{curve{name: "encoded and packed, by batchfs", color: 1}, f.ours, own, shard.Packed},
	}
	for _, m := range mixesOf(liquidForms, steps) {
		f.add(f.liquid(m))
	}
	var profiled mix
	f.sides = append(f.sides, contender{start: func(ctx context.Context) (t turn, err error) {
		if profiled, err = f.profile(ctx); err != nil {
			return nil, err
		}
		return f.start(ctx, f.ours(profiled), nil)
	}})
	where := f.d.row(f.s.String())
	return contest{what: where + "over the mix", contenders: f.sides, rows: func(r results) (rows []row) {
		p := panel{title: f.title(), x: "share of raw, or packed, images", y: "images/s"}
		for _, line := range lines {
			measured, model := line.curve, line.curve
			measured.dots, model.dashed, model.name = true, true, line.name+": model"
			for _, m := range mixesOf([]shard.Cost{line.second, shard.Encoded}, steps) {
				i := f.add(line.of(m))
				measured.add(m[line.second], r.of(rate, i).median())
				model.add(m[line.second], line.rate(m, f.s.limit(line.takes)))
			}
			p.curves = append(p.curves, measured, model)
		}
		*pictures = append(*pictures, p)
		for i, side := range f.entered {
			by := ""
			if side.program == f.libraries {
				by = ", decoded by libraries"
			}
			rows = append(rows, r.row(where+side.mix.String()+by, rate, i))
		}
		best := r.fastest(ours)
		found := r.ratio(where+"the profiler's mix / best of all measured", rate, len(f.sides)-1, best).atLeast(0.95)
		return append(rows, found.noted("%v / %v; %s", profiled, f.entered[best].mix, found.note))
	}}
}

// profile asks the profiler for the best mix.
func (f *field) profile(ctx context.Context) (m mix, err error) {
	encoded := f.ours(alone(shard.Encoded))
	if err := f.d.writeMix(ctx, f.bench, encoded.mix); err != nil {
		return m, err
	}
	var answer struct {
		Raw    float64 `json:"raw_ratio"`
		Packed float64 `json:"packed_ratio"`
	}
	args := append([]string{"profile", "--json", "--work", f.work}, f.flags(encoded)...)
	args = append(args, f.d.manifest(encoded.mix))
	cpus, err := someCPUs(f.s.cpus)
	if err != nil {
		return m, err
	}
	err = onCPUs(cpus, func() error {
		out, err := f.command(ctx, args...)
		if err != nil {
			return err
		}
		return json.Unmarshal(out, &answer)
	})
	return mix{1 - answer.Packed - answer.Raw, answer.Packed, answer.Raw}, err
}

// endToEnd has programs consume the batches that take some time for each.
func endToEnd(ctx context.Context, b *bench) ([]contest, error) {
	var pictures []panel
	list, err := mixed(ctx, b, func(d *mixData) []contest {
		f := &field{bench: b, d: d, s: setting{mb: enough, cpus: len(processors()), cached: cachedShare}}
		return []contest{f.consumed(&pictures)}
	})
	return drawn(list, &pictures, b.plots, "end-to-end"), err
}

type namedRival struct {
	name string
	rival
}

// endToEnd are CoorDL, Liquid's best mix and our own, by the model.
func (f *field) endToEnd() []namedRival {
	ours, theirs := f.takes(f.batchfs), f.takes(f.libraries)
	return []namedRival{
		{nameCoorDL, f.coordl()},
		{nameLiquid, f.liquid(theirs.best(liquidForms, f.s.limit(theirs), tenths))},
		{nameOurs, f.ours(ours.best(allForms, f.s.limit(ours), fine))},
	}
}

func (f *field) consumed(pictures *[]panel) contest {
	sides := f.endToEnd()
	for _, side := range sides {
		f.add(side.rival, f.d.steps...)
	}
	where := f.d.row(f.s.String())
	return contest{what: where + "end to end", contenders: f.sides, rows: func(r results) (rows []row) {
		curves := []curve{{name: "the program alone", color: len(sides), dashed: true}}
		for i, side := range sides {
			curves = append(curves, curve{name: side.name, color: (i + 2) % len(sides), dots: true})
			for _, step := range f.d.steps {
				most := float64(f.d.batch) / step.Seconds()
				if i == 0 {
					curves[0].add(step.Seconds()*1e3, most)
				}
				images := r.of(atStep(step), i)
				curves[1+i].add(step.Seconds()*1e3, images.median())
				what := fmt.Sprintf("%sa program of %v a batch, %s", where, step, side.name)
				rows = append(rows, measured(what, "images/s", images).noted("of %.0f; %v", most, side.mix))
			}
		}
		for _, step := range f.d.steps {
			what := fmt.Sprintf("%sa program of %v a batch, ours / Liquid's", where, step)
			rows = append(rows, r.ratio(what, atStep(step), 2, 1))
		}
		x := "ms of the program for a batch"
		*pictures = append(*pictures, panel{title: f.title(), x: x, y: "images/s", curves: curves})
		return rows
	}}
}

// computed is a ratio that the model has for many processors.
func (d *mixData) computed(b *bench, cached float64, what string, of ratioOf) contest {
	return contest{what: d.name, rows: func(results) (rows []row) {
		n := len(processors())
		ours, theirs := d.takes[kind{b.batchfs, n}], d.takes[kind{b.libraries, n}]
		ours, theirs = ours.onProcessors(many/float64(n)), theirs.onProcessors(many/float64(n))
		for _, mb := range b.bandwidths(storages) {
			s := setting{mb: mb, cpus: many, cached: cached}
			x := numbers(of(ours, theirs, s.limit(ours)))
			rows = append(rows, measured(d.row(s.String())+what, "x", x).noted("computed by the model"))
		}
		return rows
	}}
}

// A ratioOf compares two mixes by the model.
type ratioOf func(ours, theirs takes, l limit) float64

// balance shows how fast mixes of each pair of forms are loaded and decoded, by the model.
func (f *field) balance() panel {
	t := f.takes(f.batchfs)
	l := f.s.limit(t)
	var curves []curve
	for color, pair := range [][]shard.Cost{liquidForms, {shard.Encoded, shard.Packed}, {shard.Packed, shard.Raw}} {
		name := pair[0].String() + " : " + pair[1].String()
		loading := curve{name: name + ", loading", color: color}
		decoding := curve{name: name + ", decoding", color: color, dashed: true}
		for n := range tenths + 1 {
			share := float64(n) / tenths
			var m mix
			m[pair[0]], m[pair[1]] = 1-share, share
			loading.add(share, 1/t.loading(m, l))
			decoding.add(share, 1/t.decoding(m))
		}
		curves = append(curves, loading, decoding)
	}
	return panel{title: f.title(), x: "share of the second form", y: "images/s", log: true, curves: curves}
}

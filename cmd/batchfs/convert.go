package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/dustin/go-humanize/english"
	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/internal/annotation"
	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/profile"
	"github.com/batchfs/batchfs/shard"
)

func convertCommand(c *console) *cli.Command {
	return command("convert DATASET OUT", func(f *flagSet) runner {
		r := &convertRequest{console: c, source: dataset.Options{Rescan: true}}
		o, e := &r.options, &r.profile.Engine
		profiledFlags(c, f, &r.profile, &r.source, &r.gpu)
		ofMount := f.checks // for the mount to profile for, if there is one
		f.checks = nil
		onlyAuto := slices.DeleteFunc(flagNames(f.flags), func(name string) bool {
			return slices.Contains([]string{"seed", "workers", "memory-limit", "max-pixels", "ignore-orientation"}, name)
		})
		datasetFlags(f, &r.source)
		f.group = ""
		r.ratioFlag(f, shard.Raw, &o.Shares.Raw)
		r.ratioFlag(f, shard.Packed, &o.Shares.Packed)
		rawFlags(f, o)
		partFlags(f, &o.Part, &o.Merge)
		f.check(func() error {
			r.dataset, r.out, r.source.Workers = f.args[0], f.args[1], e.Workers
			o.Seed, o.Workers, o.Memory = e.Seed, e.Workers, c.memoryLimit(e.MemoryLimit)
			o.MaxPixels, o.IgnoreOrientation = e.Decoding.MaxPixels, e.Decoding.IgnoreOrientation
			if !f.Changed("raw-ratio") && !f.Changed("packed-ratio") {
				return usage("--raw-ratio or --packed-ratio is missing")
			}
			if err := o.Shares.Validate(); err != nil {
				return err
			}
			auto := len(r.auto) > 0
			switch i := slices.IndexFunc(onlyAuto, f.Changed); {
			case i >= 0 && !auto:
				return usage("--%s is for --raw-ratio auto and --packed-ratio auto: it is for the profile that finds them", onlyAuto[i])
			case auto && o.Shares != convert.Shares{}:
				return usage("--raw-ratio and --packed-ratio must be both numbers or both auto: the best shares are found together")
			case auto && o.Part.N > 0:
				return hint(usage("--part needs numbers for --raw-ratio and --packed-ratio, the same for all parts"), "batchfs profile %s", shellWord(r.dataset))
			}
			if !auto {
				return nil
			}
			e.Shuffle = e.Shuffle || !f.Changed("shuffle") // a mix of forms is made for shuffled datasets
			return runAll(ofMount)
		})
		jsonFlag(c, f, "print one JSON object")
		return c.withDataset(f, &r.source, &annotation.Options{}, r.convert)
	})
}

type convertRequest struct {
	*console
	dataset, out string
	source       dataset.Options
	auto         []shard.Cost // for these forms, the profiler chooses the shares, for a mount with these settings
	profile      profile.Options
	gpu          gpuRequest
	options      convert.Options
}

// forMount returns the options of a profile for the mount, on the storage that will hold the
// result.
func (r *convertRequest) forMount(ds *dataset.Dataset) profile.Options {
	o := r.profile
	o.Storage, o.Raw, o.Work = r.source.Storage, r.options, existing(filepath.Dir(filepath.Clean(r.out)))
	o.Samples, o.Forms = ds.Len(), r.auto // all samples
	return o
}

// ratioFlag is the share of a form.
func (r *convertRequest) ratioFlag(f *flagSet, form shard.Cost, to *float64) {
	f.derived(form.String()+"-ratio", "0", fmt.Sprintf("store a share of `R` %s, 0 to 1, or auto: what batchfs profile finds", form),
		value(to, "a number from 0 to 1, or auto", func(text string) (ratio float64, ok bool) {
			if text == "auto" {
				r.auto = append(r.auto, form)
				return 0, true
			}
			return ratio, fraction(&ratio)(text) == ""
		}))
}

// rawFlags say how raw images are stored.
func rawFlags(f *flagSet, o *convert.Options) {
	f.add("raw-format", "bmp", "store raw images as `bmp|ppm`; ppm stores gray ones as PGM, a third of the size",
		named(&o.Format))
	f.derived("raw-size", "the image's own", "store raw images at `HxW`, height and width", extent(&o.Height, &o.Width, "256x256"))
	f.derived("raw-resize", "none", "how they get to that size: `stretch|not-larger|not-smaller`",
		among("stretch|not-larger|not-smaller", named(&o.Resize)))
	f.check(func() error {
		switch size, resize := f.Changed("raw-size"), f.Changed("raw-resize"); {
		case size && !resize:
			return usage("--raw-size needs --raw-resize, as in --raw-resize not-smaller")
		case resize && !size:
			return usage("--raw-resize needs --raw-size, as in --raw-size 256x256")
		}
		return nil
	})
}

func (r *convertRequest) convert(ctx context.Context, a *annotation.Dataset) (printable, error) {
	ds, o := a.Images, r.options
	o.Manifest = ds.Manifest
	o.Rows = func(ctx context.Context) (*dataset.Rows, error) { return dataset.FindRows(ctx, r.dataset, r.source) }
	if len(r.auto) > 0 {
		o.Auto = func(ctx context.Context) (convert.Shares, error) {
			result, err := r.runProfile(ctx, r.dataset, ds, r.forMount(ds), r.gpu)
			if err == nil && result.AsItIs {
				err = errBestAsItIs
			}
			return result.Shares, err
		}
	}
	var plan convert.Plan
	o.Announce = func(p convert.Plan) {
		plan = p
		if !r.asJSON {
			r.announce(p, ds)
		}
	}
	bar := r.progress()
	o.Progress = bar.reporter("converting", "images")
	report, err := convert.Write(ctx, ds, r.out, o)
	bar.close()
	if errors.Is(err, errBestAsItIs) {
		return notConverted{ds.Name, true}, nil
	}
	if err != nil {
		return nil, convertError(r.out, plan, err)
	}
	return convertResult{ds.Name, report, o.Part}, nil
}

// errBestAsItIs ends a conversion that would gain nothing, before it begins.
var errBestAsItIs = errors.New("the dataset is best as it is")

// notConverted is the output of convert if the profiler found no mix that gains enough.
type notConverted struct {
	Dataset string `json:"dataset"`
	AsItIs  bool   `json:"best_as_it_is"`
}

func (n notConverted) print(out io.Writer) {
	fmt.Fprintf(out, "nothing was converted: no mix is faster by %.0f %% than the dataset as it is\nto use it: mount %s\n", 100*(profile.LeastGain-1), shellWord(n.Dataset))
}

// announce prints the plan before the conversion begins.
func (r *convertRequest) announce(p convert.Plan, ds *dataset.Dataset) {
	if p.Resumed {
		r.printf("continuing in %s\n", p.Staging)
	}
	will := fmt.Sprintf("%d of %s will be raw (%d already)", p.Raw, count(p.Samples, "image"), p.AlreadyRaw)
	switch {
	case p.Shares.Raw == 0 && p.Shares.Packed > 0:
		will = fmt.Sprintf("%d of %s will be packed (%d already)", p.Packed, count(p.Samples, "image"), p.AlreadyPacked)
	case p.Shares.Packed > 0:
		will += fmt.Sprintf(", %d packed (%d already)", p.Packed, p.AlreadyPacked)
	}
	r.printf("%s; kept as %s, %s, %s\n", will, count(p.Linked, "hard link"), count(p.Cloned, "clone"), count(p.Copied, "copy"))
	for _, left := range p.LeftOut {
		r.printf("left out: %s\n", columnsLeft(left))
	}
	if n := ds.Report.Ignored; ds.Packed && n > 0 {
		r.printf("left out: %s of the archives (%s)\n", count(n, "other file"), ds.Report.IgnoredKinds())
	}
	if p.Turned > 0 {
		r.printf("%s to be turned upright, which the columns of the manifest would not fit: not made raw\n", count(p.Turned, "image"))
	}
	r.printf("this needs %s in %s, where %s are free\n", formatBytes(p.NeedBytes), filepath.Dir(p.Out), formatBytes(p.FreeBytes))
}

// columnsLeft says which columns the result's manifest lacks, and why.
func columnsLeft(left convert.LeftOut) string {
	var names []string
	for _, name := range left.Columns {
		names = append(names, displayName(name))
	}
	return fmt.Sprintf("%s %s: %s", english.PluralWord(len(names), "column", ""), english.WordSeries(names, "and"), left.Why)
}

// convertError adds a hint to the error of a conversion that ended early.
func convertError(out string, plan convert.Plan, err error) error {
	partial, room := shellWord(filepath.Clean(out)+".partial"), "df -h "+shellWord(filepath.Dir(cmp.Or(plan.Out, filepath.Clean(out))))
	switch {
	case errors.Is(err, context.Canceled):
		return hint(errInterrupted, "the same command continues; to give up: rm -r %s", partial)
	case errors.Is(err, convert.ErrSpace) && plan.NeedBytes > plan.FreeBytes:
		err = fmt.Errorf("%w: %s are needed, %s are free", convert.ErrSpace, formatBytes(plan.NeedBytes), formatBytes(plan.FreeBytes))
		smaller := "--raw-ratio or --raw-size"
		switch {
		case plan.Shares.Packed > 0 && plan.Shares.Raw > 0:
			smaller = "--raw-ratio, --raw-size or --packed-ratio"
		case plan.Shares.Packed > 0:
			smaller = "--packed-ratio"
		}
		return hint(err, "make room, or choose a smaller %s: %s", smaller, room)
	}
	err = advise(err,
		advice{convert.ErrNotEmpty, "choose a new directory elsewhere: batchfs convert DATASET OUT"},
		advice{convert.ErrInside, "choose a new directory elsewhere: batchfs convert DATASET OUT"},
		advice{convert.ErrSpace, "make room, and the same command continues: " + room},
		advice{convert.ErrSettings, "to continue, give the same flags; to start again: rm -r " + partial},
		advice{convert.ErrName, "to start again, rename one: mv FILE OTHER"},
		advice{convert.ErrSource, "to start again: rm -r " + partial},
		advice{dataset.ErrOutside, "if that is intended: --allow-outside"},
		advice{convert.ErrMemory, "to continue with more memory, add --memory-limit SIZE to the same command"},
		advice{convert.ErrBusy, "fuser -v " + partial},
		advice{convert.ErrMountpoint, "choose a directory in it: batchfs convert DATASET " + shellWord(filepath.Join(out, "mixed"))},
		advice{convert.ErrForeign, "see what it is, or choose another directory: ls -la " + partial},
		advice{fs.ErrPermission, "choose a directory that you may write to: ls -ld " + shellWord(filepath.Dir(filepath.Clean(out)))})
	if hintOf(err) == "" && plan.Out != "" { // it had begun
		return hint(err, "once that is mended, the same command continues; to give up: rm -r %s", partial)
	}
	return err
}

// convertResult is the output of convert.
type convertResult struct {
	Dataset string `json:"dataset"`
	convert.Report
	part dataset.Share
}

func (r convertResult) print(out io.Writer) {
	t := newTable(out)
	if r.part.N > 0 && !r.Finished {
		t.row("part", "%s, in %s until --merge", r.part, displayName(r.Staging))
	} else {
		t.row("result", "%s", displayName(r.Out))
	}
	if r.Manifest != "" {
		t.row("manifest", "%s", displayName(r.Manifest))
	}
	if r.Carried != nil {
		files := ""
		if r.ColumnFiles > 0 {
			files = fmt.Sprintf("; %s that they name", count(r.ColumnFiles, "file"))
		}
		t.row("columns", "%s%s", someOf(r.Carried), files)
	}
	for _, left := range r.LeftOut {
		t.row("left out", "%s", columnsLeft(left))
	}
	if r.Classes != "" {
		t.row("classes", "%s; mount with --classes and this file", displayName(r.Classes))
	}
	t.row("images", "%d", r.Samples)
	t.row("raw", "%d, %d of them already", r.Raw, r.AlreadyRaw)
	if r.Shares.Packed > 0 || r.Packed > 0 {
		t.row("packed", "%d, %d of them already", r.Packed, r.AlreadyPacked)
	}
	if r.Unpackable > 0 {
		t.row("not packed", "%d chosen images that have no packed form: they stay as they are, and others were chosen instead", r.Unpackable)
	}
	if r.Finished {
		t.row("done", "earlier; there was nothing to do")
	} else {
		t.row("done", "%d made raw or packed, %d linked, %d cloned, %d copied, %d from an earlier run", r.Converted, r.Linked, r.Cloned, r.Copied, r.Reused)
	}
	if r.Symlinked > 0 {
		t.row("left", "%d unreadable files in place, as symbolic links", r.Symlinked)
	}
	t.row("unreadable", "%d", len(r.Unreadable))
	t.Flush()
	printFirstBad(out, r.Unreadable)
}

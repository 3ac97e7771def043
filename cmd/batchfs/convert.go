package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/convert"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/decode/resample"
)

func convertCommand(c *console) *cobra.Command {
	return command("convert DATASET OUT", func(f *flagSet) runner {
		r := &convertRequest{source: datasetOptions{rescan: true}}
		o := &r.options
		datasetFlags(f, &r.source)
		f.group = ""
		f.derived("raw-ratio", "none, it is required", "store a share of `R` raw, 0 to 1, or auto: what batchfs profile finds", rawRatio(&o.Ratio, &r.auto))
		rawFlags(f, o)
		f.add("seed", "0", "choose the raw images by `N`", seed(&o.Seed))
		workerFlag(c, f, &o.Workers)
		memoryFlag(f, &o.Memory, "convert only as much at once as fits into `SIZE`, such as 8GiB")
		decodeFlags(f, &o.MaxPixels, &o.IgnoreOrientation)
		jsonFlag(f, &r.asJSON, "print one JSON object")
		return func(ctx context.Context, args []string) error {
			r.dataset, r.out, r.source.workers = args[0], args[1], o.Workers
			o.Memory = c.memoryLimit(o.Memory)
			if !f.Changed("raw-ratio") {
				return usage("--raw-ratio is missing")
			}
			if err := checkRawSize(f); err != nil {
				return err
			}
			return c.convert(ctx, *r)
		}
	})
}

type convertRequest struct {
	dataset, out string
	source       datasetOptions
	auto         bool // the profiler chooses the share
	options      convert.Options
	asJSON       bool
}

func rawRatio(to *float64, auto *bool) parser {
	return func(text string) string {
		*auto = text == "auto"
		if !*auto && fraction(to)(text) != "" {
			return "a number from 0 to 1, or auto"
		}
		return ""
	}
}

// rawFlags say how raw images are stored.
func rawFlags(f *flagSet, o *convert.Options) {
	f.add("raw-format", "bmp", "store raw images as `bmp|ppm`; ppm stores gray ones as PGM, a third of the size",
		choice(&o.Format, convert.BMP, convert.PPM))
	f.derived("raw-size", "the image's own", "store raw images at `HxW`, height and width", extent(&o.Height, &o.Width, "256x256"))
	f.derived("raw-resize", "none", "how they get to that size: `stretch|not-larger|not-smaller`",
		choice(&o.Resize, resample.Stretch, resample.NotLarger, resample.NotSmaller))
}

func checkRawSize(f *flagSet) error {
	switch size, resize := f.Changed("raw-size"), f.Changed("raw-resize"); {
	case size && !resize:
		return usage("--raw-size needs --raw-resize, as in --raw-resize not-smaller")
	case resize && !size:
		return usage("--raw-resize needs --raw-size, as in --raw-size 256x256")
	}
	return nil
}

func (c *console) convert(ctx context.Context, r convertRequest) error {
	ds, err := c.openDataset(ctx, r.dataset, r.source)
	if err != nil {
		return err
	}
	defer ds.Close()
	o := r.options
	if info, err := os.Stat(r.dataset); err == nil && !info.IsDir() {
		o.Manifest = r.dataset
	}
	if r.auto {
		o.Auto = func(ctx context.Context) (float64, error) {
			settings, err := c.defaultProfile(r)
			if err != nil {
				return 0, err
			}
			result, err := c.runProfile(ctx, r.dataset, ds, settings)
			return result.RawRatio, err
		}
	}
	var plan convert.Plan
	o.Announce = func(p convert.Plan) {
		plan = p
		if !r.asJSON {
			c.announceConversion(p)
		}
	}
	bar := c.progress("converting", "images")
	o.Progress = bar.report
	report, err := convert.Write(ctx, ds, r.out, o)
	bar.close()
	if err != nil {
		return convertError(r.out, plan, err)
	}
	return show(c.out, convertSummaryOf(ds, report, o), r.asJSON)
}

// announceConversion prints the plan before the conversion begins.
func (c *console) announceConversion(p convert.Plan) {
	if p.Resumed {
		c.printf("continuing in %s\n", p.Staging)
	}
	c.printf("%d of %s will be raw (%d already); kept as %s, %s, %s\n",
		p.Raw, count(p.Samples, "image"), p.AlreadyRaw, count(p.Linked, "hard link"), count(p.Cloned, "clone"), count(p.Copied, "copy"))
	c.printf("this needs %s in %s, where %s are free\n", formatBytes(p.NeedBytes), filepath.Dir(p.Out), formatBytes(p.FreeBytes))
}

// convertError adds a hint to the error of a conversion that ended early.
func convertError(out string, plan convert.Plan, err error) error {
	partial, room := shellWord(filepath.Clean(out)+".partial"), "df -h "+shellWord(filepath.Dir(plan.Out))
	switch {
	case errors.Is(err, context.Canceled):
		return hint(errInterrupted, "the same command continues; to give up: rm -r %s", partial)
	case errors.Is(err, convert.ErrSpace) && plan.NeedBytes > plan.FreeBytes:
		err = fmt.Errorf("%w: %s are needed, %s are free", convert.ErrSpace, formatBytes(plan.NeedBytes), formatBytes(plan.FreeBytes))
		return hint(err, "make room, or choose a smaller --raw-ratio or --raw-size: %s", room)
	}
	return advise(err,
		advice{convert.ErrNotEmpty, "choose a new directory elsewhere: batchfs convert DATASET OUT"},
		advice{convert.ErrInside, "choose a new directory elsewhere: batchfs convert DATASET OUT"},
		advice{convert.ErrSpace, "make room, and the same command continues: " + room},
		advice{convert.ErrSettings, "to continue, give the same flags; to start again: rm -r " + partial},
		advice{convert.ErrName, "to start again, rename one: mv FILE OTHER"},
		advice{convert.ErrSource, "to start again: rm -r " + partial},
		advice{sample.ErrMemory, "to continue with more memory, add --memory-limit SIZE to the same command"},
		advice{convert.ErrBusy, "fuser -v " + partial},
		advice{convert.ErrMountpoint, "choose a directory in it: batchfs convert DATASET " + shellWord(filepath.Join(out, "mixed"))},
		advice{convert.ErrForeign, "see what it is, or choose another directory: ls -la " + partial},
		advice{fs.ErrPermission, "choose a directory that you may write to: ls -ld " + shellWord(filepath.Dir(filepath.Clean(out)))})
}

// convertSummary is the output of convert.
type convertSummary struct {
	Dataset     string    `json:"dataset"`
	Out         string    `json:"out"`
	Manifest    string    `json:"manifest,omitempty"`
	Samples     int       `json:"samples"`
	Raw         int       `json:"raw"`
	RawRatio    float64   `json:"raw_ratio"` // as requested
	RawFormat   string    `json:"raw_format"`
	AlreadyRaw  int       `json:"already_raw"`
	Converted   int       `json:"converted"`
	Linked      int       `json:"linked"`
	Cloned      int       `json:"cloned"`
	Copied      int       `json:"copied"`
	Symlinked   int       `json:"symlinked"`
	Reused      int       `json:"reused"`
	RawBytes    int64     `json:"raw_bytes"`
	CopiedBytes int64     `json:"copied_bytes"`
	NeededBytes int64     `json:"needed_bytes"`
	FreeBytes   int64     `json:"free_bytes"`
	Resumed     bool      `json:"resumed"`
	Finished    bool      `json:"finished_before"`
	Unreadable  []badFile `json:"unreadable"`
}

func convertSummaryOf(ds *dataset.Dataset, r convert.Report, o convert.Options) convertSummary {
	s := convertSummary{
		Dataset: ds.Root(), Out: r.Out, Manifest: r.Manifest, Samples: r.Samples, Raw: r.Raw, RawRatio: r.Ratio,
		RawFormat: o.Format.String(), AlreadyRaw: r.AlreadyRaw, Converted: r.Converted, Linked: r.Linked, Cloned: r.Cloned,
		Copied: r.Copied, Symlinked: r.Symlinked, Reused: r.Reused, RawBytes: r.RawBytes, CopiedBytes: r.CopyBytes,
		NeededBytes: r.NeedBytes, FreeBytes: r.FreeBytes, Resumed: r.Resumed, Finished: r.Finished, Unreadable: []badFile{},
	}
	if o.Manifest != "" {
		s.Dataset = filepath.Join(ds.Root(), filepath.Base(o.Manifest))
	}
	for _, u := range r.Unreadable {
		s.Unreadable = append(s.Unreadable, newBadFile(u.Path, u.ID, u.Reason))
	}
	return s
}

func (s convertSummary) print(out io.Writer) error {
	t := newTable(out)
	t.row("result", "%s", shown(s.Out))
	if s.Manifest != "" {
		t.row("manifest", "%s", shown(s.Manifest))
	}
	t.row("images", "%d", s.Samples)
	t.row("raw", "%d, %d of them already", s.Raw, s.AlreadyRaw)
	if s.Finished {
		t.row("done", "earlier; there was nothing to do")
	} else {
		t.row("done", "%d made raw, %d linked, %d cloned, %d copied, %d from an earlier run", s.Converted, s.Linked, s.Cloned, s.Copied, s.Reused)
	}
	if s.Symlinked > 0 {
		t.row("left", "%d unreadable files in place, as symbolic links", s.Symlinked)
	}
	t.row("unreadable", "%d", len(s.Unreadable))
	if err := t.Flush(); err != nil {
		return err
	}
	return printBad(out, s.Unreadable)
}

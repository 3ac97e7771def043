package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/convert"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/decode/resample"
)

func convertCommand(c *console) *cli.Command {
	return command(cli.Command{
		Name:      "convert",
		Usage:     "make a dataset of which a share is stored raw",
		ArgsUsage: "DATASET OUT",
		Description: "Writes DATASET anew to OUT, a new directory, with a share of the images stored raw, chosen evenly over the\n" +
			"classes: a training run then reads more and decodes less. The others are hard links of the originals, or copies\n" +
			"where there can be no links. OUT holds ordinary image files in the same directories, with the same labels; where x.jpg\n" +
			"becomes x.jpg.bmp, it keeps its place in the order. Each image has the RGB pixels that it had, upright, unless --raw-size\n" +
			"stores it smaller, as training with that --size and --resize would see it.\n\n" +
			"OUT appears when it is complete; until then it grows in OUT.partial. After an interruption the same command\n" +
			"continues.",
		Flags: join(datasetFlags(), []cli.Flag{
			derivedSetting("", "raw-ratio", "none, it is required", "store a share of `R` raw, 0 to 1, or auto: what batchfs profile finds"),
			setting("", "raw-format", "bmp", "store raw images as `bmp|ppm`; with ppm, gray ones as PGM, a third of the size"),
			derivedSetting("", "raw-size", "the image's own", "store raw images at `HxW`, height and width"),
			derivedSetting("", "raw-resize", "none", "how they reach it: `stretch|not-larger|not-smaller`"),
			setting("", "seed", "0", "choose them by `N`"),
			workersFlag(),
			derivedSetting(aboutPipeline, "memory-limit", "half of what is free", "convert no more at once than takes `SIZE`, such as 8GiB"),
			maxPixelsFlag(),
			orientationFlag(),
			jsonFlag("print one JSON object"),
		}),
		Action: func(ctx *cli.Context) error {
			r, err := c.convertRequest(&flagValues{flags: ctx})
			if err != nil {
				return err
			}
			return c.convert(ctx.Context, r)
		},
	}, "batchfs convert --raw-ratio 0.3 photos/ mixed/")
}

type convertRequest struct {
	dataset, out string
	source       datasetOptions
	auto         bool // the profiler chooses the share
	options      convert.Options
	asJSON       bool
}

func (c *console) convertRequest(v *flagValues) (convertRequest, error) {
	args := v.arguments("DATASET", "OUT")
	r := convertRequest{dataset: args[0], out: args[1], asJSON: v.on("json")}
	r.source = v.datasetOptions(v.workers(c.machine), discardLog())
	r.source.rescan = true
	r.options = convert.Options{
		Format: choice(v, "raw-format", convert.BMP, convert.PPM), Seed: v.seed(),
		IgnoreOrientation: v.on("ignore-orientation"), MaxPixels: v.maxPixels(),
		Workers: r.source.workers, Memory: v.bytesOr("memory-limit", c.machine.defaultMemoryLimit()),
	}
	if r.auto = v.text("raw-ratio") == "auto"; !r.auto {
		r.options.Ratio = v.rawRatio()
	}
	v.rawSize(&r.options)
	return r, v.err
}

func (v *flagValues) rawRatio() float64 {
	p, ok := parseRatio(v.text("raw-ratio"))
	switch {
	case v.text("raw-ratio") == "":
		v.refuse(usage("--raw-ratio is missing"))
	case !ok || p < 0 || p > 1:
		v.refuse(badValue("raw-ratio", "a number from 0 to 1, or auto", v.text("raw-ratio")))
	}
	return p
}

// rawSize reads --raw-size and --raw-resize, which must be given together.
func (v *flagValues) rawSize(o *convert.Options) {
	switch {
	case v.given("raw-size") && !v.given("raw-resize"):
		v.refuse(usage("--raw-size needs --raw-resize, as in --raw-resize not-smaller"))
	case v.given("raw-resize") && !v.given("raw-size"):
		v.refuse(usage("--raw-resize needs --raw-size, as in --raw-size 256x256"))
	case v.given("raw-size"):
		var err error
		if o.Height, o.Width, err = parseExtent(v.text("raw-size")); err != nil {
			v.refuse(badValue("raw-size", extentRule("256x256"), v.text("raw-size")))
		}
		o.Resize = choice(v, "raw-resize", resample.Stretch, resample.NotLarger, resample.NotSmaller)
	}
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
		o.Auto = c.profiledRatio(r, ds, o)
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

// profiledRatio chooses the share for --raw-ratio auto: the best for a mount with default
// flags, on the storage that holds the output.
func (c *console) profiledRatio(r convertRequest, ds *dataset.Dataset, o convert.Options) convert.Ratio {
	return func(ctx context.Context) (float64, error) {
		result, err := c.runProfile(ctx, r.dataset, ds, c.defaultProfile(r, o))
		return result.RawRatio, err
	}
}

// announceConversion prints the plan before the conversion begins.
func (c *console) announceConversion(p convert.Plan) {
	if p.Resumed {
		c.printf("continuing what was begun in %s\n", p.Staging)
	}
	c.printf("%d of %s will be raw (%d are already), %d hard links, %d clones, %d copies\n",
		p.Raw, count(p.Samples, "image"), p.AlreadyRaw, p.Linked, p.Cloned, p.Copied)
	c.printf("this needs %s in %s, where %s are free\n", formatBytes(p.NeedBytes), filepath.Dir(p.Out), formatBytes(p.FreeBytes))
}

// convertError adds a hint to the error of a conversion that ended early.
func convertError(out string, plan convert.Plan, err error) error {
	partial := shellWord(filepath.Clean(out) + ".partial")
	switch {
	case errors.Is(err, context.Canceled):
		return hint(errInterrupted, "the same command continues; to give up: rm -r %s", partial)
	case errors.Is(err, convert.ErrNotEmpty), errors.Is(err, convert.ErrInside):
		return hint(err, "choose a new directory elsewhere: batchfs convert DATASET OUT")
	case errors.Is(err, convert.ErrSpace) && plan.NeedBytes > plan.FreeBytes:
		err = fmt.Errorf("%w: %s are needed, %s are free", convert.ErrSpace, formatBytes(plan.NeedBytes), formatBytes(plan.FreeBytes))
		return hint(err, "make room, or choose a smaller --raw-ratio or --raw-size: df -h %s", shellWord(filepath.Dir(plan.Out)))
	case errors.Is(err, convert.ErrSpace):
		return hint(err, "make room, and the same command continues: df -h %s", shellWord(filepath.Dir(plan.Out)))
	case errors.Is(err, convert.ErrSettings):
		return hint(err, "give the same flags to continue, or begin anew: rm -r %s", partial)
	case errors.Is(err, convert.ErrName):
		return hint(err, "rename one, and the same command starts again: mv FILE OTHER")
	case errors.Is(err, convert.ErrSource):
		return hint(err, "begin anew: rm -r %s", partial)
	case errors.Is(err, sample.ErrMemory):
		return hint(err, "allow more, and the same command continues: --memory-limit SIZE")
	case errors.Is(err, convert.ErrBusy):
		return hint(err, "fuser -v %s", partial)
	case errors.Is(err, convert.ErrMountpoint):
		return hint(err, "choose a directory in it: batchfs convert DATASET %s", shellWord(filepath.Join(out, "mixed")))
	case errors.Is(err, convert.ErrForeign):
		return hint(err, "see what it is, or choose another directory: ls -la %s", partial)
	case errors.Is(err, fs.ErrPermission):
		return hint(err, "choose a directory that you may write to: ls -ld %s", shellWord(filepath.Dir(filepath.Clean(out))))
	}
	return err
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
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	row("result", "%s", shown(s.Out))
	if s.Manifest != "" {
		row("manifest", "%s", shown(s.Manifest))
	}
	row("images", "%d", s.Samples)
	row("raw", "%d, %d of them before", s.Raw, s.AlreadyRaw)
	if s.Finished {
		row("done", "before; there was nothing to do")
	} else {
		row("done", "%d made raw, %d linked, %d cloned, %d copied, %d there from an earlier run", s.Converted, s.Linked, s.Cloned, s.Copied, s.Reused)
	}
	if s.Symlinked > 0 {
		row("left", "%d where they are, with a symbolic link, as they cannot be read", s.Symlinked)
	}
	row("unreadable", "%d", len(s.Unreadable))
	if err := w.Flush(); err != nil {
		return err
	}
	return printBad(out, s.Unreadable)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/convert"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/engine/profile"
	refusal "github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/shard"
)

func profileCommand(c *console) *cli.Command {
	return command(cli.Command{
		Name:      "profile",
		Usage:     "find the mix of encoded and raw images that is fastest here",
		ArgsUsage: "DATASET",
		Description: "Encoded images keep the processors busy, raw ones the storage; somewhere between all encoded and all raw both are\n" +
			"equally busy. This measures how fast mixes load and how fast they decode, starting with half and half, and drops what\n" +
			"cannot be better until one of 11 mixes is left; from what images cost it then finds a finer answer, and\n" +
			"runs the pipeline with it. Give the flags of your mount: they decide what is slow. batchfs convert makes the\n" +
			"mixed dataset.\n\n" +
			"For some of the images it makes raw copies in a directory below --work, which should be on the storage that the\n" +
			"mixed dataset will be on, and removes them at the end.",
		Flags: join(orderFlags(), pixelFlags(), pipelineFlags(), datasetFlags(), rawFlags(), []cli.Flag{
			derivedSetting("", "images", "256, fewer if large", "measure with `N` images of the dataset at most"),
			setting("", "duration", "1s", "measure each figure for `TIME` at least"),
			derivedSetting("", "work", "beside the dataset, or where temporary files go", "make raw copies in a directory in `DIR`"),
			derivedSetting("", "plot", "none", "draw loading, decoding and throughput over the mix to `FILE`, .svg or .png"),
			switchFlag("", "exhaustive", false, "measure all 11 mixes"),
			jsonFlag("print one JSON object"),
		}),
		Action: func(ctx *cli.Context) error {
			r, err := c.profileRequest(&flagValues{flags: ctx})
			if err != nil {
				return err
			}
			return c.profile(ctx.Context, r)
		},
	}, "batchfs profile --batch-size 256 --shuffle --size 224x224 --resize random-resized-crop --work /data photos/")
}

// rawFlags say how raw images are stored: profile.
func rawFlags() []cli.Flag {
	return []cli.Flag{
		setting("", "raw-format", "bmp", "store raw images as `bmp|ppm`"),
		derivedSetting("", "raw-size", "the image's own", "store raw images at `HxW`, height and width"),
		derivedSetting("", "raw-resize", "none", "how they reach it: `stretch|not-larger|not-smaller`"),
	}
}

type profileRequest struct {
	dataset string
	source  datasetOptions
	options profile.Options
	plot    string
	format  string
	asJSON  bool
}

func (c *console) profileRequest(v *flagValues) (profileRequest, error) {
	args := v.arguments("DATASET")
	r := profileRequest{dataset: args[0], plot: v.text("plot"), asJSON: v.on("json")}
	o := &r.options
	o.Engine = v.engineOptions(c.machine, discardLog())
	c.place(v, &o.Engine)
	_ = v.readPath() // irrelevant here, but a mount flag: check it
	r.source = v.datasetOptions(o.Engine.Workers, discardLog())
	// Measured reads obey the mount's bandwidth limit; preparing them need not.
	o.Storage, r.source.storage.MaxBandwidth = r.source.storage, 0
	o.Raw.Format = choice(v, "raw-format", convert.BMP, convert.PPM)
	v.rawSize(&o.Raw)
	o.Images = int(v.numberOr("images", 1, maxCount, 0))
	o.Least = v.duration("duration", time.Millisecond)
	o.Work, o.Exhaustive = v.text("work"), v.on("exhaustive")
	if v.given("plot") {
		r.format = strings.ToLower(strings.TrimPrefix(filepath.Ext(r.plot), "."))
		if r.format != "svg" && r.format != "png" {
			v.refuse(badValue("plot", "a file name that ends in .svg or .png", r.plot))
		}
	}
	return r, v.err
}

func (c *console) profile(ctx context.Context, r profileRequest) error {
	ds, err := c.openDataset(ctx, r.dataset, r.source)
	if err != nil {
		return err
	}
	defer ds.Close()
	result, err := c.runProfile(ctx, r.dataset, ds, r.options)
	if err != nil {
		return err
	}
	if r.plot != "" {
		if err := writePlot(r.plot, &result, r.format); err != nil {
			return err
		}
	}
	return show(c.out, profileSummary{result, c.machine.cpus}, r.asJSON)
}

// defaultProfile profiles for a mount with default flags, except those given to convert.
func (c *console) defaultProfile(r convertRequest, o convert.Options) profile.Options {
	return profile.Options{
		Engine: engine.Options{
			Config: shard.Config{Shards: 1, BatchSize: 32, Shuffle: true, PadLastBatch: true}, Epochs: 1, PrefetchDepth: 2, BatchWorkers: 2,
			Workers: r.source.workers, MemoryLimit: o.Memory, CacheSize: engine.AutoCache, CachePolicy: cache.Constant,
			Decoding: decode.Options{IgnoreOrientation: o.IgnoreOrientation, MaxPixels: o.MaxPixels}, Memory: c.env.buffers,
		},
		Storage: r.source.storage, Raw: o, Work: existing(filepath.Dir(filepath.Clean(r.out))),
	}
}

// existing returns the directory, or its nearest existing parent.
func existing(dir string) string {
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// runProfile profiles, with progress on a terminal.
func (c *console) runProfile(ctx context.Context, path string, ds *dataset.Dataset, o profile.Options) (profile.Result, error) {
	bars := map[profile.Phase]*progress{
		profile.Copying:   c.progress("making raw copies", "images"),
		profile.Measuring: c.progress("measuring", "figures"),
	}
	o.Progress = func(phase profile.Phase, done, total int) {
		if phase == profile.Measuring {
			bars[profile.Copying].close()
		}
		bars[phase].report(int64(done), int64(total))
	}
	result, err := profile.Run(ctx, ds, o)
	for _, bar := range bars {
		bar.close()
	}
	return result, profileError(path, err)
}

// profileError adds a hint to the error of a profile that ended early.
func profileError(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w; nothing was left behind", errInterrupted)
	case errors.Is(err, profile.ErrInside):
		return hint(err, "choose a directory beside it: --work DIR")
	case errors.Is(err, profile.ErrSpace):
		return hint(err, "fewer images, or another place: --images 64 --work DIR")
	case errors.Is(err, profile.ErrNoSample):
		return hint(err, "batchfs verify %s", shellWord(path))
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return hint(err, "choose a directory that can be written to: --work DIR")
	}
	var config *refusal.Error
	if errors.As(err, &config) {
		return optionError(path, err)
	}
	return err
}

// writePlot draws to a file that appears only when it is complete.
func writePlot(path string, r *profile.Result, format string) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".batchfs-plot-")
	if err != nil {
		return hint(err, "choose a directory that can be written to: --plot FILE")
	}
	err = errors.Join(r.Plot(temporary, format), temporary.Chmod(0o644), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// profileSummary is the output of profile. Its JSON is that of the result.
type profileSummary struct {
	profile.Result
	cpus int
}

func (s profileSummary) print(out io.Writer) error {
	fmt.Fprintf(out, "%d of %d images, %s encoded and %s raw on average; %s\n", s.Images, s.Samples,
		formatBytes(int64(s.Encoded.Bytes)), formatBytes(int64(s.Raw.Bytes)), s.cacheWords())
	if s.Skipped > 0 {
		fmt.Fprintf(out, "%s left out: unreadable or too large (batchfs verify %s)\n", count(s.Skipped, "image"), shellWord(s.Dataset))
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "encoded:raw\tloading/s\tdecoding/s\tlimited by\t")
	for _, step := range s.Steps {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", mixWords(step.RawRatio), rateWords(step.Loading), rateWords(step.Decoding), step.Limit, stepWords(step))
	}
	fmt.Fprintln(w, "\t\t\t\t")
	fmt.Fprintln(w, "the pipeline\timages/s\thits\t\t")
	for _, run := range s.Runs {
		fmt.Fprintf(w, "%s\t%s\t%.0f %%\t\t\n", mixWords(run.RawRatio), rateWords(run.Throughput), 100*run.HitRatio)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nbest: %.0f %% of the images raw, %s images/s%s\n", 100*s.RawRatio, rateWords(s.Verified), s.gainWords())
	fmt.Fprintln(out, s.reason())
	for _, note := range s.Notes {
		if text := s.noteWords(note); text != "" {
			fmt.Fprintln(out, "note: "+text)
		}
	}
	_, err := fmt.Fprintf(out, "to make it: batchfs convert --raw-ratio %.2f %s OUT\n", s.RawRatio, shellWord(s.Dataset))
	return err
}

func mixWords(raw float64) string {
	return fmt.Sprintf("%.3g:%.3g", 10*(1-raw), 10*raw)
}

func rateWords(r profile.Rate) string {
	if math.IsInf(float64(r), 0) {
		return "no limit"
	}
	return fmt.Sprintf("%.4g", float64(r))
}

func stepWords(s profile.Step) string {
	if s.From == s.To {
		return fmt.Sprintf("so %s is the best of 11", mixWords(s.From))
	}
	if s.Limit == profile.Loading {
		return fmt.Sprintf("more raw images would load slower still: %s to %s are left", mixWords(s.From), mixWords(s.To))
	}
	return fmt.Sprintf("fewer raw images would decode slower still: %s to %s are left", mixWords(s.From), mixWords(s.To))
}

func (s profileSummary) cacheWords() string {
	if s.CacheBytes == 0 {
		return "no cache"
	}
	return "a cache of " + formatBytes(s.CacheBytes)
}

func (s profileSummary) gainWords() string {
	if s.EncodedOnly <= 0 || s.RawRatio <= s.AlreadyRaw {
		return ""
	}
	return fmt.Sprintf(", %.2f times what the images as they are give", float64(s.Verified/s.EncodedOnly))
}

// reason says why the answer is the best.
func (s profileSummary) reason() string {
	switch {
	case slices.Contains(s.Notes, profile.OtherWins):
		return fmt.Sprintf("the pipeline is faster with it than where loading and decoding are equally fast (%.0f %%)", 100*s.Crossing)
	case s.RawRatio <= s.AlreadyRaw:
		return "even now loading is the slower: raw images, which are larger, would only make it slower"
	case s.RawRatio >= 1:
		return "even now decoding is the slower: each encoded image would only make it slower"
	}
	return "loading and decoding are equally fast there: more raw images would load slower, fewer would decode slower"
}

func (s profileSummary) noteWords(n profile.Note) string {
	switch n {
	case profile.OtherStorage:
		return fmt.Sprintf("the raw copies were in %s, on other storage than the dataset; choose where with --work DIR", filepath.Dir(s.Work))
	case profile.PageCache:
		return "with --io buffered the page cache holds all of the sample, so that loading looks faster than from storage"
	case profile.Waiting:
		if s.Workers <= s.cpus {
			return fmt.Sprintf("the pipeline is slower than loading and decoding are for themselves: workers wait for storage and do not decode meanwhile; try --workers %d", 4*s.cpus)
		}
		return "the pipeline is slower than loading and decoding are for themselves"
	case profile.RawSmaller:
		return "raw images are the smaller files here: more of them do not make loading slower"
	}
	return ""
}

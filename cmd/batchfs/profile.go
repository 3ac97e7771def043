package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/internal/annotation"
	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/profile"
	"github.com/batchfs/batchfs/shard"
)

func profileCommand(c *console) *cli.Command {
	return command("profile DATASET", func(f *flagSet) runner {
		var o profile.Options
		var source dataset.Options
		var gpu gpuRequest
		var plot string
		profiledFlags(c, f, &o, &source, &gpu)
		datasetFlags(f, &source)
		f.group = ""
		f.add("formats", "packed,raw", "what images may be converted to: `packed|raw`, or both, with a comma", formats(&o.Forms))
		rawFlags(f, &o.Raw)
		f.derived("images", "256, fewer if large", "measure with at most `N` images of the dataset", number(&o.Images, 1, maxCount))
		f.derived("samples", "not known", "if DATASET is a part of a larger one, profile for all `N` images of that", number(&o.Samples, 1, math.MaxInt32))
		f.derived("consumer", "none", "say what training gains that takes `TIME` for each batch, such as 40ms", duration(&o.Consumer, time.Microsecond))
		f.derived("work", "beside the dataset, or the directory for temporary files", "make copies in a directory in `DIR`", place(&o.Work, "a directory"))
		f.derived("plot", "none", "draw loading, decoding and throughput over the mix to `FILE`, .svg or .png",
			value(&plot, "a file name that ends in .svg or .png", func(text string) (string, bool) {
				return text, slices.Contains([]string{"svg", "png"}, plotFormat(text))
			}))
		f.toggle(&o.Exhaustive, "exhaustive", false, "measure all mixes of two formats in tenths")
		jsonFlag(c, f, "print one JSON object")
		f.check(func() error {
			source.Workers, o.Engine.Logger = o.Engine.Workers, quiet
			// Measured reads obey the mount's bandwidth limit; preparing them need not.
			o.Storage, source.Storage.MaxBandwidth = source.Storage, 0
			return nil
		})
		return c.withDataset(f, &source, &annotation.Options{}, func(ctx context.Context, a *annotation.Dataset) (printable, error) {
			result, err := c.runProfile(ctx, f.args[0], a.Images, o, gpu)
			if err == nil && plot != "" {
				err = writePlot(plot, &result)
			}
			return profileSummary{result}, err
		})
	})
}

// formats accepts the names of forms that images can be converted to.
func formats(to *[]shard.Cost) parser {
	return value(to, "packed, raw, or both: packed,raw", func(text string) (all []shard.Cost, ok bool) {
		for name := range strings.SplitSeq(text, ",") {
			switch f := map[string]shard.Cost{"packed": shard.Packed, "raw": shard.Raw}[strings.TrimSpace(name)]; {
			case f == shard.Encoded || slices.Contains(all, f):
				return nil, false
			default:
				all = append(all, f)
			}
		}
		return all, true
	})
}

// profiledFlags are the flags for how long to measure, and the flags of a mount that a profile
// depends on, except those of its dataset.
func profiledFlags(c *console, f *flagSet, o *profile.Options, source *dataset.Options, gpu *gpuRequest) {
	f.add("duration", "1s", "measure each figure for at least `TIME`", duration(&o.Least, time.Millisecond))
	batchFlags(c, f, &o.Engine, source, gpu, new(string)) // the way that readers get bytes is irrelevant here
	f.check(func() error {
		o.AsKept = !f.Changed(entryFlag)
		return nil
	})
}

func plotFormat(path string) string {
	return strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))
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
func (c *console) runProfile(ctx context.Context, path string, ds *dataset.Dataset, o profile.Options, gpu gpuRequest) (profile.Result, error) {
	if _, err := gpu.open(&o.Engine, nil); err != nil {
		return profile.Result{}, err
	}
	defer closeDevice(&o.Engine)
	bar := c.progress()
	o.Copied, o.Measured = bar.reporter("making copies", "images"), bar.reporter("measuring", "figures")
	result, err := profile.Run(ctx, ds, o)
	bar.close()
	return result, profileError(path, err)
}

// profileError adds a hint to the error of a profile that ended early.
func profileError(path string, err error) error {
	return advise(err,
		advice{convert.ErrInside, "choose a directory beside it: --work DIR"},
		advice{convert.ErrSpace, "fewer images, or another place: --images 64 --work DIR"},
		advice{profile.ErrNoSample, "batchfs verify " + shellWord(path)},
		advice{os.ErrNotExist, "choose a directory that can be written to: --work DIR"},
		advice{os.ErrPermission, "choose a directory that can be written to: --work DIR"})
}

func writePlot(path string, r *profile.Result) error {
	var picture bytes.Buffer
	if err := r.Plot(&picture, plotFormat(path)); err != nil {
		return err
	}
	if err := os.WriteFile(path, picture.Bytes(), 0o644); err != nil {
		return hint(err, "choose a directory that can be written to: --plot FILE")
	}
	return nil
}

// profileSummary is the output of profile. Its JSON is that of the result.
type profileSummary struct {
	profile.Result
}

func (s profileSummary) print(out io.Writer) {
	cache := "no cache"
	if s.CacheBytes > 0 {
		cache = "a cache of " + formatBytes(s.CacheBytes)
	}
	var sizes []string
	for _, f := range s.Forms {
		sizes = append(sizes, fmt.Sprintf("%s %s", formatBytes(int64(s.costOf(f).Bytes)), f))
	}
	fmt.Fprintf(out, "%d of %d images, %s on average; %s\n", s.Images, s.Samples, english.WordSeries(sizes, "and"), cache)
	if s.Skipped > 0 {
		fmt.Fprintf(out, "%s skipped: unreadable or too large (batchfs verify %s)\n", count(s.Skipped, "image"), shellWord(s.Dataset))
	}
	fmt.Fprintln(out)
	t := newTable(out)
	t.row(strings.Join(s.Forms, ":"), "loading/s\tdecoding/s\tlimited by")
	for _, step := range s.Steps {
		t.row(s.mixWords(step.Shares), "%s\t%s\t%s", rateWords(step.Loading), rateWords(step.Decoding), step.Limit)
	}
	t.row("", "\t\t")
	t.row("the pipeline", "first epoch/s\tlater epochs/s\thits")
	for _, run := range s.Runs {
		t.row(s.mixWords(run.Shares), "%s\t%s, within %.0f %%\t%.0f %%", rateWords(run.FirstEpoch), rateWords(run.Throughput), math.Ceil(100*run.Noise), 100*run.HitRatio)
	}
	t.Flush()
	if s.AsItIs {
		fmt.Fprintf(out, "\nbest: the dataset as it is, %s images/s: no mix is faster by %.0f %%\n", rateWords(s.Verified), 100*(profile.LeastGain-1))
	} else {
		gain := ""
		if s.EncodedOnly > 0 {
			gain = fmt.Sprintf(", %.2f times the rate of the dataset as it is", float64(s.Verified/s.EncodedOnly))
		}
		fmt.Fprintf(out, "\nbest: %s, %s images/s%s\n", shareWords(s.Shares), rateWords(s.Verified), gain)
	}
	s.printNotes(out)
	use, asItIs := s.Shares, s.AsItIs
	if s.Training != nil {
		s.printTraining(out)
		if least := s.Training.Smallest; least != nil {
			use, asItIs = least.Shares, least.AsItIs
		}
	}
	if asItIs {
		fmt.Fprintf(out, "to use it: mount %s as it is\n", shellWord(s.Dataset))
		return
	}
	flags := ""
	for _, f := range []shard.Cost{shard.Packed, shard.Raw} {
		if share := use.Of(f); share > 0 {
			flags += fmt.Sprintf(" --%s-ratio %.2f", f, share)
		}
	}
	fmt.Fprintf(out, "to make it: batchfs convert%s %s OUT\n", flags, shellWord(s.Dataset))
}

// printTraining says how much training gains.
func (s profileSummary) printTraining(out io.Writer) {
	of := s.Training
	fmt.Fprintf(out, "\ntraining that takes %v for each batch can take %s images/s\n", time.Duration(math.Round(of.Step*1e9)), rateWords(of.Most))
	t := newTable(out)
	t.row("", "training/s\tlimited by\tan image's file")
	row := func(what string, f *profile.Fed) {
		if f == nil {
			return
		}
		limit, mix := "training itself", "the dataset as it is"
		if f.Limit != profile.Consumer {
			limit = string(f.Limit)
		}
		if !f.AsItIs {
			mix = shareWords(f.Shares)
		}
		t.row(what+": "+mix, "%s\t%s\t%s", rateWords(f.Throughput), limit, formatBytes(int64(f.Bytes)))
	}
	row("best", &of.Fastest)
	row("best single form", of.Single)
	row("smallest that is enough", of.Smallest)
	t.Flush()
	if of.Smallest == nil {
		fmt.Fprintln(out, "no mix is as fast as that: training waits for batches")
	} else {
		fmt.Fprintln(out, "training gains nothing by a faster mix than the smallest that is enough")
	}
}

func (s profileSummary) printNotes(out io.Writer) {
	for _, note := range s.Notes {
		if text := s.noteWords(note); text != "" {
			fmt.Fprintln(out, "note: "+text)
		}
	}
}

// mixWords are the tenths of each candidate.
func (s profileSummary) mixWords(mix convert.Shares) string {
	var parts []string
	for f := range shard.Cost(shard.NumCosts) {
		if slices.Contains(s.Forms, f.String()) {
			parts = append(parts, fmt.Sprintf("%.3g", 10*mix.Of(f)))
		}
	}
	return strings.Join(parts, ":")
}

// shareWords says how many images are packed and raw.
func shareWords(s convert.Shares) string {
	switch {
	case s.Packed == 0:
		return fmt.Sprintf("%.0f %% of the images raw", 100*s.Raw)
	case s.Raw == 0:
		return fmt.Sprintf("%.0f %% of the images packed", 100*s.Packed)
	}
	return fmt.Sprintf("%.0f %% of the images packed and %.0f %% raw", 100*s.Packed, 100*s.Raw)
}

// costOf is the cost of an image in a form.
func (s profileSummary) costOf(form string) profile.Cost {
	return map[string]profile.Cost{"encoded": s.Encoded, "packed": s.Result.Packed, "raw": s.Result.Raw}[form]
}

func rateWords(r profile.Rate) string {
	if math.IsInf(float64(r), 0) {
		return "no limit"
	}
	return fmt.Sprintf("%.4g", float64(r))
}

func (s profileSummary) noteWords(n profile.Note) string {
	switch n {
	case profile.OtherStorage:
		return fmt.Sprintf("the copies were in %s, on different storage than the dataset; choose another place with --work DIR", filepath.Dir(s.Work))
	case profile.CopiedOut:
		return fmt.Sprintf("the images were copied out of the dataset to %s: the rates are those of image files there, as batchfs convert makes them", filepath.Dir(s.Work))
	case profile.PageCache:
		return "the page cache of --io buffered is left out of account: it holds all measured images, but not a larger dataset"
	case profile.Noisy:
		return "the rates of one mix differ widely from turn to turn: something else uses the machine; repeat when it is idle, or measure longer, as with --duration 5s"
	case profile.SmallDataset:
		return fmt.Sprintf("the cache would hold all %d images, even the largest files, and is left out of account, as they may be part of a larger dataset; "+
			"if not, --samples %d; if they are, --samples N, with the number of all", s.Samples, s.Samples)
	case profile.WithinNoise:
		return fmt.Sprintf("with %s, loading and decoding would be equally fast, but that was faster by less than %.0f %%, or by no more than noise", shareWords(s.Crossing), 100*(profile.LeastGain-1))
	case profile.OtherWins:
		return fmt.Sprintf("with it the pipeline is faster than with the mix whose loading and decoding are equally fast (%s)", shareWords(s.Crossing))
	case profile.Waiting:
		return "the pipeline is slower than loading or decoding alone"
	case profile.NoPackedForm:
		return "none of these images has a packed form"
	case profile.RawSmaller:
		return "raw images are the smaller files here, so more of them do not slow down loading"
	}
	return ""
}

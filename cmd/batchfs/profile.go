package main

import (
	"cmp"
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

	"github.com/spf13/cobra"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/engine/profile"
)

func profileCommand(c *console) *cobra.Command {
	return command("profile DATASET", func(f *flagSet) runner {
		r := &profileRequest{}
		o := &r.options
		finish := engineFlags(c, f, &o.Engine)
		readPathFlag(f, new(string)) // irrelevant here, but a mount has it
		datasetFlags(f, &r.source)
		f.group = ""
		rawFlags(f, &o.Raw)
		f.derived("images", "256, fewer if large", "measure with at most `N` images of the dataset", number(&o.Images, 1, maxCount))
		f.add("duration", "1s", "measure each figure for at least `TIME`", duration(&o.Least, time.Millisecond))
		f.derived("work", "beside the dataset, or the directory for temporary files", "make raw copies in a directory in `DIR`", anything(&o.Work))
		f.derived("plot", "none", "draw loading, decoding and throughput over the mix to `FILE`, .svg or .png", plotFile(&r.plot, &r.format))
		f.toggle(&o.Exhaustive, "exhaustive", false, "measure all 11 mixes")
		jsonFlag(f, &r.asJSON, "print one JSON object")
		return func(ctx context.Context, args []string) error {
			if err := cmp.Or(finish(), checkRawSize(f)); err != nil {
				return err
			}
			r.dataset, r.source.workers, o.Engine.Logger = args[0], o.Engine.Workers, discardLog()
			// Measured reads obey the mount's bandwidth limit; preparing them need not.
			o.Storage, r.source.MaxBandwidth = r.source.Storage, 0
			return c.profile(ctx, *r)
		}
	})
}

type profileRequest struct {
	dataset string
	source  datasetOptions
	options profile.Options
	plot    string
	format  string // svg or png
	asJSON  bool
}

func plotFile(to, format *string) parser {
	return func(text string) string {
		*format = strings.ToLower(strings.TrimPrefix(filepath.Ext(text), "."))
		if *format != "svg" && *format != "png" {
			return "a file name that ends in .svg or .png"
		}
		*to = text
		return ""
	}
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

// defaultProfile profiles for a shuffled mount with the flags of convert, and otherwise
// default ones, on the storage that will hold the result.
func (c *console) defaultProfile(r convertRequest) (profile.Options, error) {
	o := profile.Options{Storage: r.source.Storage, Raw: r.options, Work: existing(filepath.Dir(filepath.Clean(r.out)))}
	e := &o.Engine
	finish := engineFlags(c, flagsOf(&cobra.Command{}), e)
	e.Workers, e.MemoryLimit = r.options.Workers, r.options.Memory
	e.Decoding.MaxPixels, e.Decoding.IgnoreOrientation = r.options.MaxPixels, r.options.IgnoreOrientation
	err := finish()
	e.Shuffle = true
	return o, err
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
	copies, figures := c.progress("making raw copies", "images"), c.progress("measuring", "figures")
	o.Copied = copies.report
	o.Measured = func(done, total int64) {
		copies.close()
		figures.report(done, total)
	}
	result, err := profile.Run(ctx, ds, o)
	copies.close()
	figures.close()
	return result, profileError(path, err)
}

// profileError adds a hint to the error of a profile that ended early.
func profileError(path string, err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w; nothing was left behind", errInterrupted)
	}
	return advise(err,
		advice{profile.ErrInside, "choose a directory beside it: --work DIR"},
		advice{profile.ErrSpace, "fewer images, or another place: --images 64 --work DIR"},
		advice{profile.ErrNoSample, "batchfs verify " + shellWord(path)},
		advice{os.ErrNotExist, "choose a directory that can be written to: --work DIR"},
		advice{os.ErrPermission, "choose a directory that can be written to: --work DIR"})
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
		fmt.Fprintf(out, "%s skipped: unreadable or too large (batchfs verify %s)\n", count(s.Skipped, "image"), shellWord(s.Dataset))
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
		return fmt.Sprintf("with more raw images, loading would be slower still: %s to %s are left", mixWords(s.From), mixWords(s.To))
	}
	return fmt.Sprintf("with fewer raw images, decoding would be slower still: %s to %s are left", mixWords(s.From), mixWords(s.To))
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
	return fmt.Sprintf(", %.2f times the rate of the dataset as it is", float64(s.Verified/s.EncodedOnly))
}

// reason says why the answer is the best.
func (s profileSummary) reason() string {
	switch {
	case slices.Contains(s.Notes, profile.OtherWins):
		return fmt.Sprintf("with it the pipeline is faster than with the mix whose loading and decoding are equally fast (%.0f %%)", 100*s.Crossing)
	case s.RawRatio <= s.AlreadyRaw:
		return "loading is the bottleneck already: raw images, which are larger, would only slow it down"
	case s.RawRatio >= 1:
		return "decoding is the bottleneck even so: each encoded image would only slow it down"
	}
	return "with it, loading and decoding are equally fast: more raw images would slow down loading, fewer would slow down decoding"
}

func (s profileSummary) noteWords(n profile.Note) string {
	switch n {
	case profile.OtherStorage:
		return fmt.Sprintf("the raw copies were in %s, on different storage than the dataset; choose another place with --work DIR", filepath.Dir(s.Work))
	case profile.PageCache:
		return "with --io buffered, the page cache holds all measured images, so that loading looks faster than from storage"
	case profile.Waiting:
		if s.Workers <= s.cpus {
			return fmt.Sprintf("the pipeline is slower than loading or decoding alone: workers that wait for storage do not decode meanwhile; try --workers %d", 4*s.cpus)
		}
		return "the pipeline is slower than loading or decoding alone"
	case profile.RawSmaller:
		return "raw images are the smaller files here, so more of them do not slow down loading"
	}
	return ""
}

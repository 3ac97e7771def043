package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/layout"
)

// This file has the flags that commands share.

// These are the headings of the help.
const (
	aboutOrder    = "Batches and shards"
	aboutPixels   = "Pixels"
	aboutPipeline = "Memory and workers"
	aboutDataset  = "Dataset"
	aboutTargets  = "Targets"
	aboutTree     = "Tree"
	aboutProcess  = "Process"
	aboutCommand  = "Flags"
)

var headings = []string{aboutOrder, aboutPixels, aboutPipeline, aboutDataset, aboutTargets, aboutTree, aboutProcess, aboutCommand}

// maxCount bounds flags that size tables and goroutines, so that a typo does not exhaust the
// machine. Every mount has maxEpochs epochs, more than any training run reads, and inode numbers
// for all of them.
const (
	maxCount  = 1 << 20
	maxEpochs = 1_000_000
	// mostQueued is the most batches that are made ahead of a reader.
	mostQueued = 1024
)

// engineFlags are the flags of order, pixels and pipeline: what a mount, a benchmark and a
// profile share.
func engineFlags(c *console, f *flagSet, o *engine.Options) {
	o.Epochs, o.Lock, o.Memory, o.CPUs = maxEpochs, true, c.env.engine.Memory, c.machine.cpus
	orderFlags(f, &o.Config)
	pixelFlags(f, o)
	pipelineFlags(c, f, o)
	f.check(func() error {
		if !f.Changed("prefetch-queue-depth") {
			o.PrefetchDepth = min(o.DefaultDepth(), mostQueued)
		}
		if !f.Changed("batch-workers") {
			o.BatchWorkers = min(o.DefaultBatchWorkers(), mostQueued)
		}
		o.MemoryLimit = c.memoryLimit(o.MemoryLimit)
		o.MemoryWait = max(1, o.MemoryWait) // 0 would mean the default
		return cmp.Or(checkPixels(f, o), setNormalization(f, o), setCache(f, o), c.place(f, o), c.env.setKernels(o))
	})
}

// batchFlags are the flags of a mount that affect how its batches are made and read.
func batchFlags(c *console, f *flagSet, o *engine.Options, source *dataset.Options, gpu *gpuRequest, readPath *string) {
	engineFlags(c, f, o)
	rankFlag(f, &o.LocalFrom, &o.LocalTo)
	entryFlags(f, &o.Entries)
	verifyReadsFlag(f, &source.Storage.Unchecked, &o.VerifyReads)
	readPathFlag(f, readPath)
	gpuFlags(f, gpu)
}

// pixelFlags decide what a batch looks like.
func pixelFlags(f *flagSet, o *engine.Options) {
	f.group = aboutPixels
	f.derived("size", "the largest image in each batch", "make every batch `HxW`, height and width",
		extent(&o.Transform.Height, &o.Transform.Width, "375x500")).everyday()
	f.add("resize", "none", "`HOW` images get to one size: none, stretch, not-larger, not-smaller, center-crop (with --resize-to) or random-resized-crop",
		named(&o.Transform.Mode)).everyday()
	f.derived("resize-to", "none", "center-crop, which needs it, brings the short side to `N` pixels, then cuts out the middle",
		number(&o.Transform.ResizeTo, 1, maxCount))
	f.add("flip", "0", "mirror an image horizontally with probability `P`",
		fraction(&o.Transform.Flip)).everyday()
	f.add("dtype", "uint8", "`TYPE` of the elements: uint8, float16, bfloat16 or float32",
		named(&o.DType)).everyday()
	f.add("normalize", "none", "mean and standard deviation: `none|imagenet`",
		oneOf(new(string), "none", "imagenet")).everyday()
	f.add("layout", "nhwc", "dimensions of .npy and .safetensors: `nhwc|nchw`",
		named(&o.Layout)).everyday()
	f.derived("mean", "0", "subtract `R,G,B` from the 8-bit values",
		perChannel(&o.Normalize.Mean)).value = ifSet(&o.Normalize.Mean)
	f.derived("std", "1", "divide by `R,G,B`, after --mean is subtracted",
		perChannel(&o.Normalize.Std)).value = ifSet(&o.Normalize.Std)
	f.add("crop-area", "0.08,1", "random-resized-crop shows `MIN,MAX` of an image's area", interval(&o.Transform.CropArea, 1))
	f.add("crop-ratio", "3/4,4/3", "and a window whose width/height is `MIN,MAX`", interval(&o.Transform.CropRatio, math.MaxFloat64))
	f.add("pad-multiple", "1", "if images keep their size, round a batch's height and width up to a multiple of `M`",
		number(&o.PadMultiple, 1, 1<<16))
	f.add("fill", "0", "value of the pixels beyond an image's own, `0..255`", number(&o.Fill, 0, math.MaxUint8))
	f.add("color", "rgb", "decode to `rgb|gray`", pick(&o.Decoding.Color, "rgb|gray", decode.RGB, decode.Gray))
	f.add("jpeg-scaling", "on", "decode JPEGs that shrink by 4 or more at 1/2, 1/4 or 1/8 first: `on|off`; off is exact but slower",
		pick(&o.FullJPEGs, "on|off", false, true))
	decodeFlags(f, &o.Decoding.MaxPixels, &o.Decoding.IgnoreOrientation)
}

// decodeFlags decide how an image is read.
func decodeFlags(f *flagSet, maxPixels *int64, ignoreOrientation *bool) {
	f.group = aboutPixels
	f.add("max-pixels", "268435456", "an image of more than `N` pixels counts as corrupt", number(maxPixels, 1, math.MaxInt64))
	f.toggle(ignoreOrientation, "ignore-orientation", false, "keep the stored pixels, ignoring the orientation in EXIF")
}

// pipelineFlags decide how batches are made. Except for on-error, they never change the
// content.
func pipelineFlags(c *console, f *flagSet, o *engine.Options) {
	workerFlag(c, f, &o.Workers)
	f.derived("loads", "as many as help", "have up to `N` samples on their way from storage, beside those that are decoded",
		number(&o.Loads, 1, 4096)).value = ifSet(&o.Loads)
	memoryFlag(c, f, &o.MemoryLimit, "use no more than `SIZE`, such as 8GiB")
	f.add("cache-size", "auto", "keep up to `SIZE` of encoded samples from one epoch to the next; 0: none, auto: what --memory-limit leaves beside unpacked pages",
		cacheSize(&o.CacheSize)).everyday()
	f.add("on-error", "fail", "a sample that cannot be read: `fail|replace|zero`",
		named(&o.OnError)).everyday()
	f.derived("prefetch-queue-depth", "2, or more if loads would not be used", "make `N` batches ahead of each reader",
		number(&o.PrefetchDepth, 0, mostQueued)).value = field(&o.PrefetchDepth)
	f.derived("batch-workers", "one more than the queue depth, or more if loads would not be used", "make `N` batches at once",
		number(&o.BatchWorkers, 1, 1024)).value = field(&o.BatchWorkers)
	f.add("memory-wait", "10s", "if the memory limit is used up, an open waits up to `TIME` for its turn, then fails with ENOMEM",
		duration(&o.MemoryWait, 0))
	f.add("cache-policy", "constant", "`POLICY` of the cache: constant (every batch hits equally often), static (keeps what came first), tinylfu (keeps what is "+
		"read most) or none",
		named(&o.CachePolicy))
	f.add("cache-form", "auto", "keep samples `encoded` as their files are, packed (a little larger, and decoded several times faster), or auto: packed where that is faster",
		named(&o.CacheForm))
	localShardsFlag(f, &o.LocalFrom, &o.LocalTo)
	f.derived(affinityFlag, "any CPU", "worker t runs on CPU number t of `LIST`, such as 3,5,6,10; the rest near the GPU; gpu: all of them, and the GPU's own threads", anything(new(string), "numbers of CPUs, or gpu"))
	f.derived(hintsFlag, "what is needed", "allocate buffers of `SIZE` per sample at the start, or of batch=SIZE,input=SIZE,scratch=SIZE",
		hints(&o.Hints))
}

func workerFlag(c *console, f *flagSet, to *int) {
	f.group = aboutPipeline
	*to = c.machine.cpus
	f.derived("workers", "one per CPU", "work on `N` samples at once",
		number(to, 1, 4096)).everyday().value = field(to)
}

// memoryFlag leaves 0 if the flag is not given; see console.memoryLimit. It refuses a limit so high
// that the kernel would kill this process or another.
func memoryFlag(c *console, f *flagSet, to *int64, usage string) {
	f.group = aboutPipeline
	size := byteSize(to)
	f.derived("memory-limit", "half of what is free", usage, func(text string) string {
		if rule := size(text); rule != "" {
			return rule
		}
		if lowest := c.machine.memory().Lowest(); *to > lowest.Total {
			return fmt.Sprintf("at most %dMiB, which is all that %s has", lowest.Total>>20, lowest.Name)
		}
		return ""
	}).everyday().value = field(to)
}

func (c *console) memoryLimit(given int64) int64 {
	return cmp.Or(given, c.machine.defaultMemoryLimit())
}

func cacheSize(to *int64) parser {
	return value(to, "a size in bytes, such as 512MiB or 8GiB, auto or 0", func(text string) (int64, bool) {
		if text == "auto" {
			return engine.AutoCache, true
		}
		return parseBytes(text)
	})
}

func setCache(f *flagSet, o *engine.Options) error {
	if f.Changed("cache-size") && o.CacheSize > 0 && f.text("cache-policy") == "none" {
		return usage("--cache-size %s needs a --cache-policy other than none", f.text("cache-size"))
	}
	return checkLocalShards(f, o.LocalTo, o.Shards)
}

// checkPixels refuses flags that contradict each other, so that none is silently ignored.
func checkPixels(f *flagSet, o *engine.Options) error {
	resize := f.text("resize")
	if resize != "none" && !f.Changed("size") {
		return usage("--resize %s needs --size, as in --size 224x224", resize)
	}
	for name, needs := range map[string]string{
		"crop-area": "random-resized-crop", "crop-ratio": "random-resized-crop", "resize-to": "center-crop",
	} {
		if f.Changed(name) && resize != needs {
			return usage("--%s is for --resize %s, not %s", name, needs, resize)
		}
	}
	if t := o.Transform; resize == "center-crop" && t.ResizeTo < max(t.Height, t.Width) {
		return checkResizeTo(f, max(t.Height, t.Width))
	}
	if o.PadMultiple > 1 && f.Changed("size") {
		return usage("--pad-multiple is for batches as large as their images; --size is exact")
	}
	return nil
}

// checkResizeTo refuses a --resize-to that is missing, or smaller than the larger side of --size.
func checkResizeTo(f *flagSet, side int) error {
	if f.Changed("resize-to") {
		return badValue("resize-to", fmt.Sprintf("at least %d, the larger side of --size", side), f.text("resize-to"))
	}
	return hint(usage("--resize center-crop needs --resize-to: the short side of an image, before the middle is cut out"),
		"--resize-to 256 with --size 224x224 is customary; to crop as little as possible: --resize not-smaller")
}

// imageNet is the meaning of --normalize imagenet, in units of 0..255.
var imageNet = layout.Normalization{
	Mean: []float64{0.485 * 255, 0.456 * 255, 0.406 * 255},
	Std:  []float64{0.229 * 255, 0.224 * 255, 0.225 * 255},
}

func setNormalization(f *flagSet, o *engine.Options) error {
	n, channels, imagenet := &o.Normalize, o.Decoding.Color.Channels(), f.text("normalize") == "imagenet"
	switch {
	case o.DType == layout.Uint8 && (imagenet || n.Mean != nil || n.Std != nil):
		return usage("--mean, --std and --normalize need --dtype float16, bfloat16 or float32: uint8 holds the pixels as they are")
	case imagenet && (n.Mean != nil || n.Std != nil):
		return usage("--normalize imagenet has its own mean and std: leave out --mean and --std")
	case imagenet && channels != len(imageNet.Mean):
		return usage("--normalize imagenet is for three channels, not for --color gray")
	case imagenet:
		*n = imageNet
	}
	for name, list := range map[string][]float64{"mean": n.Mean, "std": n.Std} {
		if list != nil && len(list) != channels {
			return badValue(name, fmt.Sprintf("one number per channel, %d, separated by commas", channels), f.text(name))
		}
	}
	if slices.ContainsFunc(n.Std, func(s float64) bool { return s <= 0 }) {
		return badValue("std", "above 0", f.text("std"))
	}
	return checkUnits(f, n)
}

// checkUnits refuses a mean or standard deviation for pixels from 0 to 1, which other libraries
// use. If there are only zeros and ones, it cannot tell.
func checkUnits(f *flagSet, n *layout.Normalization) error {
	var wrong, meant []string
	for _, name := range []string{"mean", "std"} {
		list := map[string][]float64{"mean": n.Mean, "std": n.Std}[name]
		if !slices.ContainsFunc(list, func(v float64) bool { return v > 0 && v < 1 }) || slices.Min(list) < 0 || slices.Max(list) > 1 {
			continue
		}
		words := make([]string, len(list))
		for i, v := range list {
			words[i] = strconv.FormatFloat(255*v, 'g', 6, 64)
		}
		wrong, meant = append(wrong, name), append(meant, "--"+name+" "+strings.Join(words, ","))
	}
	if len(wrong) == 0 {
		return nil
	}
	flags := strings.Join(meant, " ")
	if flags == "--mean 123.675,116.28,103.53 --std 58.395,57.12,57.375" {
		flags = "--normalize imagenet"
	}
	return didYouMean(badValue(wrong[0], "in units of 0..255, such as 123.675 for 0.485", f.text(wrong[0])), "", flags)
}

func readPathFlag(f *flagSet, to *string) {
	f.group = aboutPipeline
	f.add("read-path", "auto", "how bytes reach readers: `auto|passthrough|direct`", oneOf(to, "auto", "passthrough", "direct"))
}

// treeFlags shape the mounted tree.
func treeFlags(f *flagSet, o *fusefs.Options) {
	f.group = aboutTree
	o.UID, o.GID = uint32(os.Getuid()), uint32(os.Getgid())
	f.add("epochs", "100", "list `N` epochs; later ones, up to a million, open by name", number(&o.Epochs, 1, maxEpochs))
	f.derived("list", "the tensor form of --layout, labels.npy, json, those of --targets", "directories list each batch as `FORM,...`; the other forms open by name", forms(&o.List, &o.ListNames))
	f.toggle(&o.AllowOther, "allow-other", false, "let other users read; the kernel checks permissions").everyday()
	f.derived("uid", "yours", "the files belong to user `UID`",
		number(&o.UID, 0, math.MaxUint32-1)).value = field(&o.UID)
	f.derived("gid", "yours", "the files belong to group `GID`",
		number(&o.GID, 0, math.MaxUint32-1)).value = field(&o.GID)
	f.add("file-mode", "0444", "permissions of the files, `OCTAL`", mode(&o.FileMode))
	f.add("dir-mode", "0555", "permissions of the directories, `OCTAL`", mode(&o.DirMode))
}

// forms accepts a list of a batch's forms, without duplicates. Forms of arrays are numbered by
// their names, in order of appearance.
func forms(to *[]layout.Form, arrays *layout.Names) parser {
	var words []string
	for _, f := range layout.Forms() {
		words = append(words, f.Ext())
	}
	rule := "a list of " + english.WordSeries(words, "or")
	return func(text string) string {
		var list []layout.Form
		var names layout.Names
		for ext := range strings.SplitSeq(text, ",") {
			ext = strings.TrimPrefix(strings.TrimSpace(ext), ".")
			form, ok := names.Parse(ext)
			if !ok {
				name, _ := strings.CutSuffix(ext, ".npy")
				name, _ = strings.CutSuffix(name, ".offsets")
				names = append(names, name)
				if form, ok = names.Parse(ext); !ok || names.Check() != nil {
					return rule
				}
			}
			if slices.Contains(list, form) {
				return rule + ", each at most once"
			}
			list = append(list, form)
		}
		*to, *arrays = list, names
		return ""
	}
}

// quiet is for commands whose own output says everything.
var quiet = slog.New(slog.DiscardHandler)

// logOptions says where the log goes and what it contains.
type logOptions struct {
	level  slog.Level
	file   string // "": standard error
	asJSON bool
}

func logFlags(f *flagSet, o *logOptions) {
	f.group = aboutProcess
	f.add("log-level", "info", "log messages from this level on: `debug|info|warn|error`",
		pick(&o.level, "debug|info|warn|error", slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError))
	f.derived("log-file", "standard error", "append the log to `FILE`", place(&o.file, "a file"))
	f.add("log-format", "text", "log as `text|json`", pick(&o.asJSON, "text|json", false, true))
}

func jsonFlag(c *console, f *flagSet, usage string) {
	f.group = ""
	f.toggle(&c.asJSON, "json", false, usage)
}

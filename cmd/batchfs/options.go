package main

import (
	"errors"
	"log/slog"
	"math"
	"os"
	"strings"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/fusefs"
	refusal "github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// orderOptions reads the order of samples; the caller adds the number of samples.
func (v *flagValues) orderOptions() shard.Config {
	return shard.Config{
		Shards:       int(v.number("shards", 1, math.MaxInt32)),
		BatchSize:    int(v.number("batch-size", 1, maxCount)),
		Shuffle:      v.on("shuffle"),
		Seed:         v.seed(),
		StickToShard: v.on("stick-to-shard"),
		PadLastBatch: v.on("pad-last-batch"),
		LastBatch:    choice(v, "last-batch", shard.Fill, shard.Partial, shard.Drop),
	}
}

// maxEpochs keeps epoch numbers, and with them inode numbers, small enough.
const maxEpochs = 1 << 20

// engineOptions reads the flags of order, pixels and pipeline. The number of epochs belongs
// to the tree.
func (v *flagValues) engineOptions(m machine, log *slog.Logger) engine.Options {
	o := engine.Options{
		Config:   v.orderOptions(),
		Decoding: decode.Options{Color: v.color(), IgnoreOrientation: v.on("ignore-orientation"), MaxPixels: v.maxPixels()},
		Transform: resample.Options{
			Mode:      choice(v, "resize", resample.None, resample.Stretch, resample.NotLarger, resample.NotSmaller, resample.RandomResizedCrop),
			CropArea:  v.interval("crop-area", 1),
			CropRatio: v.interval("crop-ratio", math.MaxFloat64),
			Flip:      v.fraction("flip"),
		},
		PadMultiple: int(v.number("pad-multiple", 1, 1<<16)),

		Fill:      uint8(v.number("fill", 0, math.MaxUint8)),
		DType:     choice(v, "dtype", layout.Uint8, layout.Float16, layout.BFloat16, layout.Float32),
		Layout:    choice(v, "layout", layout.NHWC, layout.NCHW),
		FullJPEGs: choice(v, "jpeg-scaling", word("on"), word("off")) == "off",
		OnError:   choice(v, "on-error", engine.Fail, engine.Replace, engine.Zero),

		Workers:       v.workers(m),
		PrefetchDepth: int(v.number("prefetch-queue-depth", 0, 1024)),
		MemoryLimit:   v.bytesOr("memory-limit", m.defaultMemoryLimit()),
		MemoryWait:    max(1, v.duration("memory-wait", 0)),
		Logger:        log,
	}
	v.cacheOptions(&o)
	o.Normalize = v.normalization(o.Decoding.Color.Channels(), o.DType)
	o.BatchWorkers = int(v.numberOr("batch-workers", 1, 1024, int64(max(1, o.PrefetchDepth))))
	if v.given("size") {
		var err error
		if o.Transform.Height, o.Transform.Width, err = parseExtent(v.text("size")); err != nil {
			v.refuse(badValue("size", extentRule("375x500"), v.text("size")))
		}
	}
	v.pixelRules(o)
	return o
}

// pixelRules refuses flags that contradict each other, so that none is silently ignored.
func (v *flagValues) pixelRules(o engine.Options) {
	if o.Transform.Mode != resample.None && !v.given("size") {
		v.refuse(usage("--resize %s needs --size, as in --size 224x224", o.Transform.Mode))
	}
	for _, name := range []string{"crop-area", "crop-ratio"} {
		if v.given(name) && o.Transform.Mode != resample.RandomResizedCrop {
			v.refuse(usage("--%s is for --resize %s, not %s", name, resample.RandomResizedCrop, o.Transform.Mode))
		}
	}
	if o.PadMultiple > 1 && v.given("size") {
		v.refuse(usage("--pad-multiple is for batches that follow their images; --size is exact"))
	}
}

func (v *flagValues) color() decode.Color {
	if choice(v, "color", word("rgb"), word("gray")) == "gray" {
		return decode.Gray
	}
	return decode.RGB
}

func (v *flagValues) workers(m machine) int {
	return int(v.numberOr("workers", 1, 4096, int64(m.cpus)))
}

func (v *flagValues) maxPixels() int64 { return v.number("max-pixels", 1, math.MaxInt64) }

func (v *flagValues) epochs() int { return int(v.number("epochs", 1, maxEpochs)) }

func (v *flagValues) readPath() string {
	return string(choice(v, "read-path", word("auto"), word("passthrough"), word("direct")))
}

// treeOptions reads the flags that shape the mounted tree.
func (v *flagValues) treeOptions(log *slog.Logger) fusefs.Options {
	return fusefs.Options{
		AllowOther: v.on("allow-other"),
		UID:        uint32(v.numberOr("uid", 0, math.MaxUint32-1, int64(os.Getuid()))),
		GID:        uint32(v.numberOr("gid", 0, math.MaxUint32-1, int64(os.Getgid()))),
		FileMode:   v.mode("file-mode"),
		DirMode:    v.mode("dir-mode"),
		List:       v.forms("list"),
		ReadPath:   v.readPath(),
		Logger:     log,
	}
}

// forms reads a list of a batch's forms, without duplicates.
func (v *flagValues) forms(name string) []layout.Form {
	var list []layout.Form
	seen := map[layout.Form]bool{}
	for ext := range strings.SplitSeq(v.text(name), ",") {
		form, ok := layout.ParseForm(strings.TrimPrefix(strings.TrimSpace(ext), "."))
		if !ok {
			v.refuse(badValue(name, "a list of "+formWords(), v.text(name)))
			return nil
		}
		if !seen[form] {
			seen[form] = true
			list = append(list, form)
		}
	}
	return list
}

func formWords() string {
	var words []string
	for _, f := range layout.Forms() {
		words = append(words, f.Ext())
	}
	return oneOf(words)
}

// logOptions says where the log goes and what it contains.
type logOptions struct {
	level  slog.Level
	file   string // "": standard error
	asJSON bool
}

func (v *flagValues) logOptions() logOptions {
	levels := map[word]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	return logOptions{
		level:  levels[choice(v, "log-level", word("debug"), word("info"), word("warn"), word("error"))],
		file:   v.text("log-file"),
		asJSON: choice(v, "log-format", word("text"), word("json")) == "json",
	}
}

// optionError explains an error from engine or shard about options that do not fit the
// dataset, such as more shards than samples: a usage error found late.
func optionError(dataset string, err error) error {
	var bad *refusal.Error
	if errors.As(err, &bad) {
		err = badValue(strings.ReplaceAll(bad.Field, " ", "-"), bad.Rule, bad.Value)
	}
	text := "how many images there are, and how large: batchfs index " + shellWord(dataset)
	if dataset == "" {
		text = ""
	}
	return &usageError{message: err.Error(), hint: text}
}

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// flagValues reads the flags of one command line and keeps the first refusal,
// so that a whole option struct can be written down before looking at it.
type flagValues struct {
	flags *cli.Context
	err   error
}

func (v *flagValues) refuse(err error) {
	if v.err == nil {
		v.err = err
	}
}

func (v *flagValues) text(name string) string { return v.flags.String(name) }
func (v *flagValues) on(name string) bool     { return v.flags.Bool(name) }

// given says that the user chose a value, for flags whose default is found at
// run time.
func (v *flagValues) given(name string) bool { return v.flags.IsSet(name) }

// number reads a whole number from least to most.
func (v *flagValues) number(name string, least, most int64) int64 {
	n, err := strconv.ParseInt(v.text(name), 10, 64)
	if err == nil && n >= least && n <= most {
		return n
	}
	rule := fmt.Sprintf("a whole number from %d to %d", least, most)
	if most >= math.MaxInt32 {
		rule = fmt.Sprintf("a whole number, at least %d", least)
	}
	v.refuse(badValue(name, rule, v.text(name)))
	return least
}

// numberOr reads a number whose default is found at run time.
func (v *flagValues) numberOr(name string, least, most, fallback int64) int64 {
	if !v.given(name) {
		return fallback
	}
	return v.number(name, least, most)
}

func (v *flagValues) bytesOr(name string, fallback int64) int64 {
	if !v.given(name) {
		return fallback
	}
	n, err := parseBytes(v.text(name))
	if err != nil || n < 1 {
		v.refuse(badValue(name, "a size in bytes above 0, such as 512MiB or 8GiB", v.text(name)))
	}
	return n
}

func (v *flagValues) duration(name string, least time.Duration) time.Duration {
	d, err := time.ParseDuration(v.text(name))
	if err != nil || d < least {
		v.refuse(badValue(name, fmt.Sprintf("a time of at least %s, such as 500ms or 2s", least), v.text(name)))
	}
	return d
}

func (v *flagValues) mode(name string) uint32 {
	n, err := strconv.ParseUint(v.text(name), 8, 32)
	if err != nil || n > uint64(fs.ModePerm) {
		v.refuse(badValue(name, "an octal number up to 0777", v.text(name)))
	}
	return uint32(n)
}

// choice reads one of a few words: the ones the values print themselves as.
func choice[T fmt.Stringer](v *flagValues, name string, values ...T) T {
	words := make([]string, len(values))
	for i, value := range values {
		words[i] = value.String()
		if words[i] == v.text(name) {
			return value
		}
	}
	v.refuse(badValue(name, oneOf(words), v.text(name)))
	return values[0]
}

// word is a choice that stays text.
type word string

func (w word) String() string { return string(w) }

// oneOf writes alternatives: "rgb or gray", "fill, partial or drop".
func oneOf(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// maxCount bounds the flags that size tables and goroutines, so that a slip
// of the finger is refused here instead of exhausting the machine.
const maxCount = 1 << 20

// orderOptions is the order of samples; the caller adds how many there are.
func (v *flagValues) orderOptions() shard.Config {
	seed, err := strconv.ParseUint(v.text("seed"), 10, 64)
	if err != nil {
		v.refuse(badValue("seed", "a whole number from 0 to 2^64-1", v.text("seed")))
	}
	return shard.Config{
		Shards:       int(v.number("shards", 1, math.MaxInt32)),
		BatchSize:    int(v.number("batch-size", 1, maxCount)),
		Shuffle:      v.on("shuffle"),
		Seed:         seed,
		StickToShard: v.on("stick-to-shard"),
		PadLastBatch: v.on("pad-last-batch"),
		LastBatch:    choice(v, "last-batch", shard.Fill, shard.Partial, shard.Drop),
	}
}

// maxEpochs keeps epoch numbers, and with them inode numbers, small enough.
const maxEpochs = 1 << 20

// engineOptions reads the flags of order, pixels and pipeline. How many
// epochs there are is a matter of the tree.
func (v *flagValues) engineOptions(m machine, log *slog.Logger) engine.Options {
	order := v.orderOptions()
	o := engine.Options{
		Shards: order.Shards, BatchSize: order.BatchSize, Shuffle: order.Shuffle, Seed: order.Seed,
		StickToShard: order.StickToShard, PadLastBatch: order.PadLastBatch, LastBatch: order.LastBatch,

		Color:             v.color(),
		Fill:              uint8(v.number("fill", 0, math.MaxUint8)),
		Layout:            choice(v, "layout", layout.NHWC, layout.NCHW),
		IgnoreOrientation: v.on("ignore-orientation"),
		MaxPixels:         v.maxPixels(),
		OnError:           choice(v, "on-error", engine.Fail, engine.Replace, engine.Zero),

		Workers:       v.workers(m),
		PrefetchDepth: int(v.number("prefetch-queue-depth", 0, 1024)),
		MemoryLimit:   v.bytesOr("memory-limit", m.defaultMemoryLimit()),
		Logger:        log,
	}
	choice(v, "dtype", layout.Uint8)
	choice(v, "resize", word("none"))
	o.BatchWorkers = int(v.numberOr("batch-workers", 1, 1024, int64(max(1, o.PrefetchDepth))))
	if v.given("size") {
		var err error
		if o.Height, o.Width, err = parseExtent(v.text("size")); err != nil {
			v.refuse(badValue("size", "a height and a width, each at least 1, as in 375x500", v.text("size")))
		}
	}
	return o
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

// forms reads a list of a batch's forms, each once.
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

// logOptions is where the log goes and how much of it.
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

// optionError is what engine and shard say about options that do not fit the
// dataset, such as more shards than samples: wrong usage, found late.
func optionError(dataset string, err error) error {
	var config *shard.ConfigError
	if errors.As(err, &config) {
		err = badValue(strings.ReplaceAll(config.Field, " ", "-"), config.Rule, config.Value)
	}
	text := "how many images there are, and how large: batchfs index " + shellWord(dataset)
	if dataset == "" {
		text = ""
	}
	return &usageError{err.Error(), text}
}

// arguments checks how many arguments a command got and names what is missing.
func (v *flagValues) arguments(names ...string) []string {
	args := v.flags.Args().Slice()
	switch {
	case len(args) < len(names):
		v.refuse(usage("%s is missing", names[len(args)]))
	case len(args) > len(names):
		v.refuse(usage("%q is one argument too many: %s takes %s", args[len(names)], v.flags.Command.Name, strings.Join(names, " and ")))
	}
	for i, a := range args[:min(len(args), len(names))] {
		if a == "" {
			v.refuse(usage("%s must not be empty", names[i]))
		}
	}
	return append(args, make([]string, len(names))...)[:len(names)]
}

// option is the spelling of a value flag on a command line.
func option(name, value string) string { return "--" + name + "=" + value }

package main

import (
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/annotation"
	"github.com/batchfs/batchfs/internal/engine"
)

const entryFlag = "entry-points"

// entryRule accepts a rule for where JPEGs have entry points.
func entryRule(to *decode.EntryRule) parser {
	return value(to, "rows, off, or a number of MCUs from 1 on", func(text string) (decode.EntryRule, bool) {
		switch text {
		case "rows":
			return decode.EntryRows, true
		case "off":
			return decode.EntryOff, true
		}
		n, err := strconv.ParseInt(text, 10, 64)
		return decode.EntryRule(n), err == nil && n >= 1 && n <= math.MaxInt32
	})
}

// entryFlags are the flags of mounts, which keep entry points unless they are told not to.
func entryFlags(f *flagSet, rule *decode.EntryRule) {
	f.group, *rule = aboutPipeline, decode.EntryRows
	f.derived(entryFlag, "as they are kept, else rows", "keep places where decoding of JPEGs can start, so that later epochs are faster: `rows|N|off`, one for each row of MCUs, "+
		"or every N MCUs", entryRule(rule))
}

// verifyReadsFlag says what is checked when a sample is read.
func verifyReadsFlag(f *flagSet, unchecked, entries *bool) {
	f.add("verify-reads", "checksums", "compare what is read with `off|checksums|all`: nothing; the checksums in zips and TFRecords; "+
		"those, and the file that its entry points were made from", func(text string) string {
		if *unchecked, *entries = text == "off", text == "all"; !slices.Contains([]string{"off", "checksums", "all"}, text) {
			return "off, checksums or all"
		}
		return ""
	})
}

// makeEntries makes the entry points of a dataset's JPEGs that are not known. What was made when
// ctx ends stays.
func (c *console) makeEntries(ctx context.Context, a *annotation.Dataset, rule decode.EntryRule, workers int) (*annotation.EntryReport, error) {
	var o engine.Options
	if err := c.env.setKernels(&o); err != nil {
		return nil, err
	}
	o.Decoding.MaxPixels = decode.DefaultMaxPixels
	bar := c.progress()
	defer bar.close()
	report, err := a.MakeEntries(ctx, rule, annotation.Work{
		Decoding: o.Decoding, Workers: workers, Memory: c.memoryLimit(0),
		Progress: func(string) func(done, total int64) { return bar.reporter("finding entry points", "images") },
	})
	return &report, advise(err, indexElsewhere, advice{annotation.ErrUnstored, "the index is kept, with the entry points found so far; run this again, with room, for the rest"})
}

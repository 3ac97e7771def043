package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/internal/entries"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/promptly"
	"github.com/batchfs/batchfs/internal/sample"
)

const entryFlag = "entry-points"

// entryRule accepts where JPEGs have entry points.
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

// entryFlags are those of mounts, which keep entry points unless they are told not to.
func entryFlags(f *flagSet, rule *decode.EntryRule) {
	f.group, *rule = aboutPipeline, decode.EntryRows
	f.derived(entryFlag, "as they are kept, else rows", "keep places where decoding of JPEGs can start, so that later epochs are faster: `rows|N|off`, one for each row of MCUs, "+
		"or every N MCUs", entryRule(rule))
}

// verifyReadsFlag says what is compared when a sample is read.
func verifyReadsFlag(f *flagSet, unchecked, entries *bool) {
	f.add("verify-reads", "checksums", "compare what is read with `off|checksums|all`: nothing; the checksums that zips and TFRecords have of it; "+
		"those, and the file that its entry points were made from", func(text string) string {
		if *unchecked, *entries = text == "off", text == "all"; !slices.Contains([]string{"off", "checksums", "all"}, text) {
			return "off, checksums or all"
		}
		return ""
	})
}

// openEntries opens the entry points that a mount uses, nil if there are none.
func (r *mountRequest) openEntries(ds *dataset.Dataset) *entries.Store {
	if r.entries == decode.EntryOff {
		return nil
	}
	store, err := ds.OpenEntries(entries.Options{Rule: int32(r.entries), Strict: r.strictEntries, Logger: r.log.Logger})
	if err != nil {
		r.log.Debug("JPEGs are decoded without stored entry points", "reason", err)
	}
	return store
}

// entryReport says which JPEGs of a dataset have entry points.
type entryReport struct {
	Have  int   `json:"have"`
	None  int   `json:"none"`  // cannot have any: too small, or not baseline
	Other int   `json:"other"` // could not be read, or not be decoded by the decoder that makes them
	Bytes int64 `json:"bytes"` // of the file that holds them
}

func (r *entryReport) print(t table) {
	t.row("entry points", "%d JPEGs have them, %d can have none, %d not known; %s", r.Have, r.None, r.Other, formatBytes(r.Bytes))
}

// entryMaker makes the entry points of a dataset's JPEGs that are not known.
type entryMaker struct {
	ds     *dataset.Dataset
	store  *entries.Store
	memory *sample.Memory
	decode decode.Options

	mu sync.Mutex
	entryReport
}

// makeEntries makes entry points, and returns shortly after ctx ends. What was made by then stays.
func (c *console) makeEntries(ctx context.Context, ds *dataset.Dataset, rule decode.EntryRule, workers int) (*entryReport, error) {
	var o engine.Options
	o.Decoding.MaxPixels = decode.DefaultMaxPixels
	if err := c.env.setKernels(&o); err != nil {
		return nil, err
	}
	store, err := ds.OpenEntries(entries.Options{Rule: int32(rule), Strict: true, Wait: true})
	if err == nil && !store.Writes() {
		err = fmt.Errorf("%s cannot be written", ds.IndexPath())
		store.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("entry points cannot be stored: %w", err)
	}
	m := &entryMaker{ds: ds, store: store, memory: sample.NewMemory(c.memoryLimit(0), workers), decode: o.Decoding}
	bar := c.progress("finding entry points", "images")
	defer bar.close()
	report, stop := promptly.Progress(bar.report)
	defer stop()
	_, err = promptly.Do(ctx, func() (struct{}, error) {
		return struct{}{}, parallel.Each(ctx, workers, ds.Len(), report, m.work)
	}, nil)
	closing := store.Close()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w; the entry points found so far are kept", errInterrupted)
	case closing != nil:
		return nil, hint(fmt.Errorf("not all entry points could be stored: %w", closing),
			"the index is kept, with the entry points found so far; run this again, with room, for the rest")
	}
	m.Bytes = store.Bytes()
	return &m.entryReport, err
}

// errNotStored ends the work; closing the store returns why.
var errNotStored = errors.New("entry points cannot be stored any more")

func (m *entryMaker) work(ctx context.Context, items iter.Seq[int]) error {
	r := sample.NewReader(m.ds, m.decode, m.memory)
	defer r.Close()
	e := sample.NewEntries(m.ds, m.store, false)
	for i := range items {
		if !m.store.Writes() {
			return errNotStored
		}
		if m.ds.Format(i) != decode.JPEG.String() {
			continue
		}
		has, known := e.Known(int64(i), m.ds.Stat(i))
		if !known {
			if img, err := r.Read(ctx, i, 0); err == nil {
				n, _ := r.MakeEntries(i, img, e) // verify is for errors
				has, known = n.Used+n.Made > 0, n.Used+n.Made+n.None > 0
			}
			r.Done()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.note(has, known)
	}
	return nil
}

func (m *entryMaker) note(has, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case has:
		m.Have++
	case known:
		m.None++
	default:
		m.Other++
	}
}

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/engine/affinity"
	refused "github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/pinned"
)

const (
	affinityFlag = "affinity"
	hintsFlag    = "bytes-per-sample"
)

// place sets the CPUs of the workers, from the flag or the environment.
func (c *console) place(f *flagSet, o *engine.Options) error {
	if c.env.buffersError != nil {
		return &usageError{message: c.env.buffersError.Error()}
	}
	list, source := c.env.affinity, affinityVariable
	if f.Changed(affinityFlag) {
		list, source = f.text(affinityFlag), "--"+affinityFlag
	}
	var err error
	if o.Affinity, err = c.affinity(list, o.Workers); err != nil {
		return affinityError(source, list, err)
	}
	return nil
}

// affinity returns the CPUs of each worker; nil if none were given.
func (c *console) affinity(list string, workers int) ([]affinity.Set, error) {
	cpus, err := affinity.Parse(list)
	if err != nil || cpus == nil {
		return nil, err
	}
	gpus := affinity.NoGPU
	if workers > len(cpus) { // the remaining workers run near the GPU
		gpus = c.env.gpus
	}
	m, err := affinity.ThisMachine(gpus)
	if err != nil {
		return nil, err
	}
	return affinity.Assign(cpus, workers, m)
}

// affinityError names the invalid entry of a list.
func affinityError(source, list string, err error) error {
	var entry *refused.Error
	if errors.As(err, &entry) {
		return usage("%s must be a list of CPU numbers, as in 3,5,6,10, but in %q %s", source, list, entry)
	}
	return err
}

// hints accepts one size for all buffers, or one for each.
func hints(to *engine.Hints) parser {
	fields := map[string][]*int64{
		"batch": {&to.Batch}, "input": {&to.Input}, "scratch": {&to.Scratch},
		"": {&to.Batch, &to.Input, &to.Scratch},
	}
	return func(text string) string {
		*to = engine.Hints{}
		for part := range strings.SplitSeq(text, ",") {
			name, size, named := strings.Cut(strings.TrimSpace(part), "=")
			if !named {
				name, size = "", name
			}
			n, err := parseBytes(size)
			if named && name == "" || err != nil || n < 1 || fields[name] == nil {
				return "a size in bytes, or batch=SIZE,input=SIZE,scratch=SIZE"
			}
			for _, field := range fields[name] {
				*field = n
			}
		}
		return ""
	}
}

// suggestHints suggests buffer sizes for the next mount, so that none has to grow.
func (c *console) suggestHints(r mountRequest, buffers []pinned.BufferStats) {
	batchSize := int64(r.engine.BatchSize)
	var parts []string
	for _, b := range buffers {
		most := b.MaxReal
		if b.Name == "batch" {
			most = (most + batchSize - 1) / batchSize
		}
		if most > 0 && b.Name != "cache" { // --cache-size covers the cache
			parts = append(parts, fmt.Sprintf("%s=%d", b.Name, most))
		}
	}
	switch hint := strings.Join(parts, ","); {
	case hint == "":
	case r.log.watched:
		(&console{err: r.log.console}).say("hint: with --%s %s, no buffer has to grow next time", hintsFlag, hint)
	default:
		r.engine.Logger.Info("largest buffers requested", hintsFlag, hint)
	}
}

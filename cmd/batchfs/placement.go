package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/engine/affinity"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/pinned"
)

const (
	affinityFlag = "affinity"
	hintsFlag    = "bytes-per-sample"
)

// place sets the CPUs of the workers, from the flag or the environment.
func (c *console) place(f *flagSet, o *engine.Options) error {
	if c.env.buffersError != nil {
		return &usageError{c.env.buffersError}
	}
	list, source := c.env.affinity, affinityVariable
	if f.Changed(affinityFlag) {
		list, source = f.text(affinityFlag), "--"+affinityFlag
	}
	var err error
	o.Affinity, err = c.affinity(list, o.Workers)
	var entry *option.Error
	if errors.As(err, &entry) {
		return usage("%s must be a list of CPU numbers, as in 3,5,6,10, but in %q %s", source, list, entry.Error())
	}
	return err
}

// affinity returns the CPUs of each worker; nil if none were given.
func (c *console) affinity(list string, workers int) ([]affinity.Set, error) {
	cpus, err := affinity.Parse(list)
	if err != nil || cpus == nil {
		return nil, err
	}
	gpu := affinity.NoGPU
	if workers > len(cpus) { // the remaining workers run near the GPU
		gpu = affinity.FirstVisible(c.env.gpus)
	}
	m, err := affinity.ThisMachine(gpu)
	if err != nil {
		return nil, err
	}
	return affinity.Assign(cpus, workers, m)
}

// hints accepts one size for all buffers, or one for each.
func hints(to *engine.Hints) parser {
	return value(to, "a size in bytes, or batch=SIZE,input=SIZE,scratch=SIZE", func(text string) (h engine.Hints, ok bool) {
		fields := map[string]*int64{"batch": &h.Batch, "input": &h.Input, "scratch": &h.Scratch}
		for part := range strings.SplitSeq(text, ",") {
			name, size, named := strings.Cut(strings.TrimSpace(part), "=")
			if !named {
				size = name
			}
			n, ok := parseBytes(size)
			switch field := fields[name]; {
			case !ok || n < 1 || named && field == nil:
				return h, false
			case named:
				*field = n
			default:
				h = engine.Hints{Batch: n, Input: n, Scratch: n}
			}
		}
		return h, true
	})
}

// suggestHints suggests buffer sizes for the next mount, so that none has to grow.
func suggestHints(r mountRequest, buffers []pinned.BufferStats) {
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
		r.log.say("hint: with --%s %s, no buffer has to grow next time", hintsFlag, hint)
	default:
		r.log.Info("largest buffers requested", hintsFlag, hint)
	}
}

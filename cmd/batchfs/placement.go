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

// place sets where workers run and how their buffers change, from flags, environment and
// machine.
func (c *console) place(v *flagValues, o *engine.Options) {
	if c.env.buffersError != nil {
		v.refuse(&usageError{message: c.env.buffersError.Error()})
	}
	o.Memory, o.Lock = c.env.buffers, true
	o.Hints = v.hints()
	list, source := c.env.affinity, affinityVariable
	if v.given(affinityFlag) {
		list, source = v.text(affinityFlag), "--"+affinityFlag
	}
	var err error
	if o.Affinity, err = c.affinity(list, o.Workers); err != nil {
		v.refuse(affinityError(source, list, err))
	}
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

// affinityError names the invalid entry of a list.
func affinityError(source, list string, err error) error {
	var entry *refused.Error
	if errors.As(err, &entry) {
		return usage("%s must be a list of CPU numbers, as in 3,5,6,10, but in %q %s", source, list, entry)
	}
	return err
}

// hints reads --bytes-per-sample: one size for all buffers, or one for each.
func (v *flagValues) hints() engine.Hints {
	var h engine.Hints
	if !v.given(hintsFlag) {
		return h
	}
	fields := map[string][]*int64{
		"batch": {&h.Batch}, "input": {&h.Input}, "scratch": {&h.Scratch},
		"": {&h.Batch, &h.Input, &h.Scratch},
	}
	for part := range strings.SplitSeq(v.text(hintsFlag), ",") {
		name, size, named := strings.Cut(strings.TrimSpace(part), "=")
		if !named {
			name, size = "", name
		}
		n, err := parseBytes(size)
		into, known := fields[name]
		if named && name == "" || err != nil || n < 1 || !known {
			v.refuse(badValue(hintsFlag, "a size in bytes, or batch=SIZE,input=SIZE,scratch=SIZE", v.text(hintsFlag)))
			return engine.Hints{}
		}
		for _, field := range into {
			*field = n
		}
	}
	return h
}

// sayHint suggests sizes for the next mount, so that no buffer has to grow.
func (c *console) sayHint(r mountRequest, buffers []pinned.BufferStats) {
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
	case r.watched:
		(&console{err: r.log.console}).say("hint: with --%s %s no buffer has to grow next time", hintsFlag, hint)
	default:
		r.engine.Logger.Info("the most that buffers were asked for", hintsFlag, hint)
	}
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batchfs/batchfs/engine/affinity"
	"github.com/batchfs/batchfs/internal/throughput"
)

// What `make bench-remote` runs (-only remote): the photos in an object store on this machine that answers late.

// onStore begins the names of these measurements.
const onStore = "remote/"

// slow is the longest of the delays of each request.
const slow = 100 * time.Millisecond

var delays = []time.Duration{0, 20 * time.Millisecond, slow}

// remoteFlags are those of all mounts that are compared: no sample is cached in memory.
func remoteFlags(more ...string) []string {
	return slices.Concat(shuffled(peerBatch, trainingCrop...), []string{"--cache-size", "0"}, more)
}

// A share says which processors the daemon has, and which the store and the reader.
type share struct {
	what           string
	daemon, others affinity.Set
}

// shares are those of this machine. Where the daemon has processors of its own, the store is as good as on another machine.
func shares() ([]share, error) {
	all, err := affinity.Current()
	list := []share{{"store on the same processors", all, all}}
	if half := len(all) / 2; half > 0 {
		list = append(list, share{fmt.Sprintf("daemon alone on %d of %d processors", half, len(all)), all[:half], all[half:]})
	}
	return list, err
}

// stored are what the photos are in the store: a folder, and a tar.
var stored = []string{"photo", "photo.tar"}

// remoteEpochs compares epochs from the store with those from the same folder on this machine, whose files are in the page
// cache, as those of the server are.
func remoteEpochs(ctx context.Context, s *setup) (rows []row, err error) {
	o, err := s.indexed(ctx, stored...)
	if err != nil {
		return nil, err
	}
	list, err := shares()
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		if err := pinProcess(o.cmd.Process.Pid, p.others); err != nil {
			return rows, err
		}
		more, err := s.epochsWith(ctx, o, p)
		rows = append(rows, more...)
		if err != nil {
			return rows, err
		}
	}
	return rows, pinProcess(o.cmd.Process.Pid, list[0].others)
}

// epochsWith measures epochs on some processors.
func (s *setup) epochsWith(ctx context.Context, o *objectStore, p share) ([]row, error) {
	var all []*throughput.Training
	var sides []side
	add := func(delay time.Duration, dataset string, flags []string) error {
		_, err := onCPUs(p.daemon, func(ctx context.Context) (float64, error) {
			if err := o.setDelay(ctx, delay); err != nil {
				return 0, err
			}
			t, err := s.train(ctx, dataset, flags, throughput.Mapped)
			if err == nil {
				all = append(all, t)
			}
			return 0, err
		})(ctx)
		if err != nil {
			return err
		}
		sides = append(sides, o.delayed(delay, onCPUs(p.others, onceFull(all[len(all)-1]))))
		return nil
	}
	defer func() {
		for _, t := range all {
			_ = t.Mount.Unmount(ctx)
		}
	}()
	err := add(0, s.photos.Root(), remoteFlags("--io", "buffered"))
	for _, delay := range delays { // a mount each, as it adapts to what it finds
		for _, name := range stored {
			if err == nil {
				err = add(delay, o.url(name), o.flags(remoteFlags()...))
			}
		}
	}
	if err != nil {
		return nil, err
	}
	rates, err := s.turns(ctx, p.what, s.rounds, sides...)
	if err != nil {
		return nil, err
	}
	rows := []row{measured("local folder, page cache; "+p.what, "images/s", rates[0], "")}
	for i, t := range all[1:] {
		delay, name := delays[i/len(stored)], stored[i%len(stored)]
		cost, err := o.cost(ctx, delay, t)
		if err != nil {
			return rows, err
		}
		note := fmt.Sprintf("%.0f images/s; %s", median(rates[1+i]), cost)
		rows = append(rows, measured(fmt.Sprintf("    %s from S3, %s a request / local folder", name, delay), "x", ratios(rates[1+i], rates[0]), note).atLeast(0.9))
	}
	own, err := processorTime(ctx, all[0])
	rows[0].note = fmt.Sprintf("processor time an image %.2f ms", 1e3*own)
	return rows, err
}

// onceFull measures an epoch once as many requests are under way as will be: answers that came while the daemon was paused
// are used up before.
func onceFull(t *throughput.Training) side {
	const window = 512 // images
	return func(ctx context.Context) (float64, error) {
		t.Mount.Resume()
		if _, err := t.Take(ctx, window/peerBatch); err != nil {
			return 0, err
		}
		return t.Epoch(ctx)
	}
}

// cost describes the processor time that an image from the store takes.
func (o *objectStore) cost(ctx context.Context, delay time.Duration, t *throughput.Training) (string, error) {
	var server float64
	own, err := o.delayed(delay, func(ctx context.Context) (float64, error) {
		before, err := clock(o.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		own, err := processorTime(ctx, t)
		if err != nil {
			return 0, err
		}
		after, err := clock(o.cmd.Process.Pid)
		server = (after - before) / float64(measuredBatches*t.Samples/t.Batches)
		return own, err
	})(ctx)
	return fmt.Sprintf("processor time an image %.2f ms, the server's %.2f", 1e3*own, 1e3*server), err
}

// delayed takes a measurement while the store answers so late.
func (o *objectStore) delayed(delay time.Duration, f side) side {
	return func(ctx context.Context) (float64, error) {
		if err := o.setDelay(ctx, delay); err != nil {
			return 0, err
		}
		return f(ctx)
	}
}

// indexed returns the store once the names in it have an index.
func (s *setup) indexed(ctx context.Context, list ...string) (*objectStore, error) {
	o, err := s.remoteStore(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.setDelay(ctx, 0); err != nil {
		return nil, err
	}
	for _, name := range list {
		s.progress.step("index of "+name, 0, 1)
		if _, err := s.command(ctx, append([]string{"index", o.url(name)}, o.flags()...)...); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// remoteTier compares epochs whose samples are all in the local cache with those from the same folder on the same disk.
func remoteTier(ctx context.Context, s *setup) ([]row, error) {
	o, err := s.indexed(ctx, "photo")
	if err != nil {
		return nil, err
	}
	var all []*throughput.Training
	for _, m := range []struct {
		dataset string
		flags   []string
	}{
		{o.url("photo"), o.flags(remoteFlags("--local-cache", s.work+"/tier")...)},
		{s.photos.Root(), remoteFlags()},
		{s.photos.Root(), remoteFlags("--io", "buffered")},
	} {
		t, err := s.train(ctx, m.dataset, m.flags, throughput.Mapped)
		if err != nil {
			return nil, err
		}
		defer t.Mount.Unmount(ctx)
		all = append(all, t)
	}
	if err := o.setDelay(ctx, slow); err != nil { // what is not local shows
		return nil, err
	}
	before, err := o.count(ctx)
	if err != nil {
		return nil, err
	}
	rates, err := s.turns(ctx, "epochs from the local cache", s.rounds, all[0].Epoch, all[1].Epoch, all[2].Epoch)
	if err != nil {
		return nil, err
	}
	after, err := o.count(ctx)
	note := []string{fmt.Sprintf("%.0f images/s", median(rates[0])), fmt.Sprintf("%d requests in %d epochs", after.Requests-before.Requests, s.rounds)}
	const what = "from the second epoch on, --local-cache / local folder, "
	return []row{
		measured(what+"from disk", "x", ratios(rates[0], rates[1]), strings.Join(note, ", ")).atLeast(0.97),
		measured(what+"page cache", "x", ratios(rates[0], rates[2]), ""),
	}, err
}

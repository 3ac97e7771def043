package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/batchfs/batchfs/internal/throughput"
)

// What `make bench-remote` runs (-only remote): the photos in an object store on this machine that answers late.

// onStore begins the names of these measurements.
const onStore = "remote/"

// delays of each request.
var delays = []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond}

// remoteFlags are those of mounts that are compared: no sample is cached in memory.
func remoteFlags(more ...string) []string {
	return slices.Concat(shuffled(peerBatch, trainingCrop...), []string{"--cache-size", "0"}, more)
}

// remoteEpochs compares epochs from the store with those from the same folder on this machine, whose files are in the page
// cache, as those of the server are.
func remoteEpochs(ctx context.Context, s *setup) ([]row, error) {
	o, err := s.remoteStore(ctx)
	if err != nil {
		return nil, err
	}
	local, err := s.train(ctx, s.photos.Root(), remoteFlags("--io", "buffered"), throughput.Mapped)
	if err != nil {
		return nil, err
	}
	defer local.Mount.Unmount(ctx)
	if _, err := s.command(ctx, append([]string{"index", o.url("photo")}, o.flags()...)...); err != nil {
		return nil, err
	}
	sides := []side{local.Epoch}
	for _, delay := range delays { // a mount each, as it adapts to what it finds
		remote, err := after(ctx, o, delay, func() (*throughput.Training, error) {
			return s.train(ctx, o.url("photo"), o.flags(remoteFlags()...), throughput.Mapped)
		})
		if err != nil {
			return nil, err
		}
		defer remote.Mount.Unmount(ctx)
		sides = append(sides, func(ctx context.Context) (float64, error) {
			return after(ctx, o, delay, func() (float64, error) { return remote.Epoch(ctx) })
		})
	}
	rates, err := s.turns(ctx, "epochs from the store", s.rounds, sides...)
	if err != nil {
		return nil, err
	}
	rows := []row{measured("a local folder, in the page cache", "images/s", rates[0], "")}
	for i, delay := range delays {
		note := fmt.Sprintf("%.0f images/s", median(rates[1+i]))
		rows = append(rows, measured(fmt.Sprintf("the same from S3, %s / local folder", delay), "x", ratios(rates[1+i], rates[0]), note).atLeast(0.9))
	}
	return rows, nil
}

// after does something while the store answers so late.
func after[T any](ctx context.Context, o *objectStore, delay time.Duration, work func() (T, error)) (result T, err error) {
	if err := o.setDelay(ctx, delay); err != nil {
		return result, err
	}
	return work()
}

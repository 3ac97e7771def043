package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

// remoteLimit is the --memory-limit of the mounts whose memory is measured, which only just suffices.
const remoteLimit = 256 << 20

// remoteTraffic counts what one epoch asks of the store, and what memory it takes.
func remoteTraffic(ctx context.Context, s *setup) (rows []row, err error) {
	o, err := s.indexed(ctx, stored...)
	if err != nil {
		return nil, err
	}
	for _, name := range stored {
		for _, delay := range delays[1:] {
			more, err := s.trafficOf(ctx, o, name, delay)
			if err != nil {
				return rows, err
			}
			rows = append(rows, more...)
		}
	}
	return rows, nil
}

func (s *setup) trafficOf(ctx context.Context, o *objectStore, name string, delay time.Duration) ([]row, error) {
	s.progress.step(fmt.Sprintf("an epoch of %s, %s", name, delay), 0, 1)
	err := o.setDelay(ctx, delay)
	before, err1 := o.count(ctx)
	if err := errors.Join(err, err1); err != nil {
		return nil, err
	}
	var mount, all traffic
	var least traffic // one request for each sample that was needed, and its bytes
	flags := o.flags(remoteFlags("--memory-limit", fmt.Sprint(remoteLimit))...)
	most, err := mounted(ctx, s, o.url(name), flags, func(m *daemon.Mount) (float64, error) {
		if mount, err = o.count(ctx); err != nil {
			return 0, err
		}
		t, err := throughput.NewTraining(m, 0, throughput.Mapped)
		if err == nil {
			_, err = t.Take(ctx, t.Batches)
		}
		if err == nil {
			all, err = o.idle(ctx)
		}
		var document fusefs.Stats
		if err == nil {
			err = m.Document(".batchfs/stats.json", &document)
		}
		for _, e := range document.Epochs { // the second one has begun
			least.Requests, least.Bytes = least.Requests+e.Misses, least.Bytes+e.StorageBytes
		}
		if err != nil {
			return 0, err
		}
		return peak(m)
	})
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%s, %s: ", name, delay)
	requests, size := all.Requests-mount.Requests, all.Bytes-mount.Bytes
	note := fmt.Sprintf("%d for %d images, and %d of the mount", requests, least.Requests, mount.Requests-before.Requests)
	return []row{
		once(what+"requests / images", "x", float64(requests)/float64(least.Requests), note),
		once(what+"bytes / their sizes", "x", float64(size)/float64(least.Bytes), fmt.Sprintf("%.1f MB", float64(size)/1e6)),
		once(what+"peak memory of the daemon / --memory-limit", "x", most/remoteLimit, fmt.Sprintf("%.0f MiB", most/(1<<20))).atMost(1),
	}, nil
}

// idle waits until nobody asks for anything any more, and returns the traffic so far.
func (o *objectStore) idle(ctx context.Context) (now traffic, err error) {
	for before := (traffic{-1, 0}); now != before && err == nil; {
		time.Sleep(5 * slow)
		before = now
		now, err = o.count(ctx)
	}
	return now, err
}

// remoteFirst measures the first batch after a mount in round trips: what it takes longer where each request takes
// longer. Decoding and starting the daemon take the same time. A folder is listed, 1,000 objects a request, unless its index
// is said to be up to date.
func remoteFirst(ctx context.Context, s *setup) (rows []row, err error) {
	kept := []string{"--index-at", filepath.Join(s.work, "index")}
	o, err := s.indexed(ctx, stored...)
	if err == nil {
		_, err = s.command(ctx, append([]string{"index", o.url("photo")}, o.flags(kept...)...)...)
	}
	if err != nil {
		return nil, err
	}
	for _, start := range []struct {
		what, name string
		flags      []string
	}{{"photo", "photo", nil}, {"photo --index-at DIR", "photo", kept}, {"photo.tar", "photo.tar", nil}} {
		var opens [2][]float64
		var sides []side
		for i, delay := range []time.Duration{0, slow} {
			sides = append(sides, o.delayed(delay, func(ctx context.Context) (float64, error) {
				began := time.Now()
				return mounted(ctx, s, o.url(start.name), o.flags(remoteFlags(start.flags...)...), func(m *daemon.Mount) (float64, error) {
					open, err := timeOpen(m, 0)
					opens[i] = append(opens[i], open)
					return time.Since(began).Seconds(), err
				})
			}))
		}
		figures, err := s.turns(ctx, "first batch of "+start.what, s.rounds, sides...)
		if err != nil {
			return rows, err
		}
		note := fmt.Sprintf("%.0f ms, %.0f at %s a request", 1e3*median(figures[0]), 1e3*median(figures[1]), slow)
		rows = append(rows,
			measured(start.what+": mount and first batch", "trips", trips(figures), note).atMost(3),
			measured("    its open alone", "trips", trips(opens[:]), fmt.Sprintf("%.0f ms", 1e3*median(opens[1]))),
		)
	}
	return rows, nil
}

// trips is how many round trips take the difference between times without and with the longest delay.
func trips(times [][]float64) []float64 {
	list := make([]float64, len(times[0]))
	for i := range list {
		list[i] = (times[1][i] - times[0][i]) / slow.Seconds()
	}
	return list
}

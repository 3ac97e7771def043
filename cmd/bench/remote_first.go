package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

// remoteLimit is the --memory-limit of the mounts whose memory is measured, which only just suffices.
const remoteLimit = 256 << 20

// remoteTraffic counts what one epoch asks of the store, and what memory it takes.
func remoteTraffic(ctx context.Context, s *setup) (rows []row, err error) {
	o, err := s.indexed(ctx, "photo", "photo.tar")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"photo", "photo.tar"} {
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
	var mount traffic
	flags := o.flags(remoteFlags("--epochs", "1", "--memory-limit", fmt.Sprint(remoteLimit))...)
	most, err := mounted(ctx, s, o.url(name), flags, func(m *daemon.Mount) (float64, error) {
		if mount, err = o.count(ctx); err != nil {
			return 0, err
		}
		t, err := throughput.NewTraining(m, 0, throughput.Mapped)
		if err == nil {
			_, err = t.Take(ctx, t.Batches)
		}
		if err != nil {
			return 0, err
		}
		return peak(m)
	})
	after, err1 := o.count(ctx)
	if err := errors.Join(err, err1); err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%s, %s: ", name, delay)
	requests, size := after.Requests-mount.Requests, after.Bytes-mount.Bytes
	note := fmt.Sprintf("%d, and %d of the mount", requests, mount.Requests-before.Requests)
	return []row{
		once(what+"requests of an epoch / images", "x", float64(requests)/float64(s.photos.images), note),
		once(what+"bytes of an epoch / their sizes", "x", float64(size)/float64(s.photos.Report().Bytes), fmt.Sprintf("%.1f MB", float64(size)/1e6)),
		once(what+"peak memory of the daemon / --memory-limit", "x", most/remoteLimit, fmt.Sprintf("%.0f MiB", most/(1<<20))).atMost(1),
	}, nil
}

// remoteFirst measures the first batch after a mount in round trips: what it takes longer where each request takes
// longer. Decoding and starting the daemon take the same time.
func remoteFirst(ctx context.Context, s *setup) (rows []row, err error) {
	names := []string{"photo", "photo.tar"}
	o, err := s.indexed(ctx, names...)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		var opens [2][]float64
		var sides []side
		for i, delay := range []time.Duration{0, slow} {
			sides = append(sides, o.delayed(delay, func(ctx context.Context) (float64, error) {
				began := time.Now()
				return mounted(ctx, s, o.url(name), o.flags(remoteFlags()...), func(m *daemon.Mount) (float64, error) {
					open, err := timeOpen(m, 0)
					opens[i] = append(opens[i], open)
					return time.Since(began).Seconds(), err
				})
			}))
		}
		figures, err := s.turns(ctx, "first batch of "+name, s.rounds, sides...)
		if err != nil {
			return rows, err
		}
		rows = append(rows,
			measured(name+": mount and first batch", "trips", trips(figures), fmt.Sprintf("%.0f ms at %s a request", 1e3*median(figures[1]), slow)).atMost(3),
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

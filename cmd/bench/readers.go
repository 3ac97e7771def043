package main

import (
	"context"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/throughput"
)

// A reader reads one shard of a mount, like a training program.
type reader struct {
	*throughput.Training
	pause time.Duration // what it does with each batch
	waits []float64     // for each batch, in seconds
}

// readersOf are readers of the first n shards.
func readersOf(m *daemon.Mount, n int) (all []*reader, err error) {
	for shard := range n {
		t, err := throughput.NewTraining(m, shard, throughput.Mapped)
		if err != nil {
			return nil, err
		}
		all = append(all, &reader{Training: t})
	}
	return all, nil
}

// readAtOnce lets all readers read side by side until each has read and taken enough. It returns
// how long that took.
func readAtOnce(ctx context.Context, all []*reader, enough func(batches int, took time.Duration) bool) (time.Duration, error) {
	var group errgroup.Group
	began := time.Now()
	for _, r := range all {
		r.waits = nil
		group.Go(func() error {
			for !enough(len(r.waits), time.Since(began)) {
				asked := time.Now()
				if _, err := r.Take(ctx, 1); err != nil {
					return err
				}
				r.waits = append(r.waits, time.Since(asked).Seconds())
				time.Sleep(r.pause)
			}
			return nil
		})
	}
	err := group.Wait()
	return time.Since(began), err
}

// images is how many it has read.
func (r *reader) images() float64 {
	return float64(len(r.waits)) * float64(r.Samples) / float64(r.Batches)
}

// busy is the part of its time in which it did not wait, for all batches but some first ones.
func (r *reader) busy(but int) float64 {
	waited, paused := 0., 0.
	for _, wait := range r.waits[min(but, len(r.waits)):] {
		waited, paused = waited+wait, paused+r.pause.Seconds()
	}
	return paused / max(waited+paused, 1e-9)
}

// The readers of compareReaders, of different speed, each of a shard of its own: a fast one must
// not take what a slow one has been promised.
const (
	manyReaders   = 8
	slowestReader = 56 * time.Millisecond // what it does with each batch; the fastest one does nothing
	readingTime   = 2 * time.Second       // of a turn
)

// least is the part of its time that the reader with the longest waits did not wait.
var least = figure{"least", "of its time", 1}

// readers is a contender whose figures are rate, slow and least.
func (b *bench) readers(program, dataset string) contender {
	return contender{start: func(ctx context.Context) (turn, error) {
		flags := warm(shuffled(16, trainingCrop...), []string{"--shards", strconv.Itoa(manyReaders)})
		m, err := b.start(ctx, program, dataset, flags)
		if err != nil {
			return nil, err
		}
		all, err := readersOf(m, manyReaders)
		if err != nil {
			return nil, err
		}
		for i, r := range all {
			if _, err := r.Take(ctx, r.Batches); err != nil {
				return nil, err
			}
			r.pause = slowestReader * time.Duration(i) / (manyReaders - 1)
		}
		m.Pause()
		return func(ctx context.Context) (figures, error) {
			f := figures{least: 1}
			var waits []float64
			err := all[0].Turn(ctx, func() error {
				_, err := readAtOnce(ctx, all, func(_ int, took time.Duration) bool { return took >= readingTime })
				return err
			})
			for _, r := range all {
				waits = slices.Concat(waits, r.waits)
				f[rate] += r.images() / readingTime.Seconds()
				if r.pause > 0 {
					f[least] = min(f[least], r.busy(0))
				}
			}
			if err == nil {
				f[slow] = quantile(waits, .99)
			}
			return f, err
		}, nil
	}}
}

// compareReaders compares how two programs serve readers of different speed.
func (b *bench) compareReaders(older, dataset string) contest {
	const what = "8 readers of different speed"
	return contest{what: what, contenders: []contender{b.readers(b.batchfs, dataset), b.readers(older, dataset)}, rows: func(r results) []row {
		return []row{
			r.ratio(what+": now / older", rate, 0, 1).atLeast(notWorse),
			r.ratio("    99th percentile of opening and reading a batch", slow, 0, 1).atMost(1.05),
			r.ratio("    what the reader that waits most has of its time", least, 0, 1).atLeast(notWorse),
		}
	}}
}

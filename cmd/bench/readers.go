package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batchfs/batchfs/internal/throughput"
)

// This file measures readers of different speed on one mount, each of a shard of its own: a fast
// one must not take what a slow one has been promised.

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
		all := make([]*throughput.Training, manyReaders)
		for i := range all {
			if all[i], err = throughput.NewTraining(m, i, throughput.Mapped); err != nil {
				return nil, err
			}
			if _, err = all[i].Take(ctx, all[i].Batches); err != nil {
				return nil, err
			}
		}
		m.Pause()
		return func(ctx context.Context) (f figures, err error) {
			err = all[0].Turn(ctx, func() error {
				f, err = readAtOnce(ctx, all)
				return err
			})
			return f, err
		}, nil
	}}
}

// readAtOnce lets all readers read for a while, each with pauses of its own.
func readAtOnce(ctx context.Context, all []*throughput.Training) (figures, error) {
	var mu sync.Mutex
	var waits []float64
	images, busiest := 0., 1.
	var group errgroup.Group
	for i, t := range all {
		pause := slowestReader * time.Duration(i) / time.Duration(len(all)-1)
		group.Go(func() error {
			began, waited, read := time.Now(), 0., 0
			for time.Since(began) < readingTime {
				asked := time.Now()
				if _, err := t.Take(ctx, 1); err != nil {
					return err
				}
				wait := time.Since(asked).Seconds()
				waited += wait
				read++
				time.Sleep(pause) // what it does with the batch
				mu.Lock()
				waits = append(waits, wait)
				mu.Unlock()
			}
			mu.Lock()
			defer mu.Unlock()
			images += float64(read) * float64(t.Samples) / float64(t.Batches)
			if pause > 0 {
				busiest = min(busiest, 1-waited/time.Since(began).Seconds())
			}
			return nil
		})
	}
	err := group.Wait()
	return figures{rate: images / readingTime.Seconds(), slow: quantile(waits, .99), least: busiest}, err
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

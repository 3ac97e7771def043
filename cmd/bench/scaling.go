package main

import (
	"context"
	"fmt"

	"github.com/batchfs/batchfs/internal/throughput"
)

// scaling compares what a second core gains batchfs with what it gains C. The reader runs
// on the same cores.
func scaling(ctx context.Context, s *setup) ([]row, error) {
	const what = "two cores / one, over C's own scaling"
	cpus, err := cores()
	if err != nil {
		return nil, err
	}
	if len(cpus) < 2 {
		return []row{{What: what, Skipped: "there is one core"}}, nil
	}
	trainings := make([]*throughput.Training, 2) // on one core, and on two
	for i := range trainings {
		err := onCPUs(cpus[:i+1], func() (err error) {
			trainings[i], err = s.train(ctx, s.photos.dir, warm(shuffled(batchSize, "--resize", "none")...), throughput.Mapped)
			return err
		})
		if err != nil {
			return nil, err
		}
		defer trainings[i].Mount.Unmount(ctx)
	}
	var sides []side
	for i, t := range trainings {
		sides = append(sides,
			func(ctx context.Context) (rate float64, err error) {
				err = onCPUs(cpus[:i+1], func() error { rate, err = s.runCeiling(ctx, i+1, s.photos.files); return err })
				return rate, err
			},
			func(ctx context.Context) (rate float64, err error) {
				err = onCPUs(cpus[:i+1], func() error { rate, err = t.Epoch(ctx); return err })
				return rate, err
			})
	}
	rates, err := s.turns(ctx, "one core and two", s.rounds, sides...)
	if err != nil {
		return nil, err
	}
	own, ceilings := ratios(rates[3], rates[1]), ratios(rates[2], rates[0])
	note := fmt.Sprintf("batchfs %.3f, C %.3f", median(own), median(ceilings))
	return []row{measured(what, "x", ratios(own, ceilings), note).atLeast(0.95)}, nil
}

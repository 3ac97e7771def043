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
		return []row{{what: what, skipped: "there is one core"}}, nil
	}
	var sides []side // C and batchfs on one core, then both on two
	for i := range 2 {
		var t *throughput.Training
		_, err := onCPUs(cpus[:i+1], func(ctx context.Context) (_ float64, err error) {
			t, err = s.train(ctx, s.photos.Root(), warm(shuffled(batchSize, "--resize", "none")...), throughput.Mapped)
			return 0, err
		})(ctx)
		if err != nil {
			return nil, err
		}
		defer t.Mount.Unmount(ctx)
		sides = append(sides, onCPUs(cpus[:i+1], s.c(i+1, s.photos.files)), onCPUs(cpus[:i+1], t.Epoch))
	}
	rates, err := s.turns(ctx, "one core and two", s.rounds, sides...)
	if err != nil {
		return nil, err
	}
	own, ceilings := ratios(rates[3], rates[1]), ratios(rates[2], rates[0])
	note := fmt.Sprintf("batchfs %.3f, C %.3f", median(own), median(ceilings))
	return []row{measured(what, "x", ratios(own, ceilings), note).atLeast(0.95)}, nil
}

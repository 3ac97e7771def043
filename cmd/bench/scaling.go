package main

import (
	"context"
	"fmt"
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
	if err := s.need(ctx, &s.photos); err != nil {
		return nil, err
	}
	var sides [2]*side
	for i := range sides {
		if sides[i], err = s.newSide(ctx, cpus[:i+1]); err != nil {
			return nil, err
		}
		defer sides[i].training.m.unmount(s)
	}
	var ratios, own, ceilings []float64
	for i := range s.rounds {
		s.progress.step("one core and two", i, s.rounds)
		for _, side := range sides {
			if err := side.measure(ctx, s); err != nil {
				return nil, err
			}
		}
		b, c := sides[1].rate/sides[0].rate, sides[1].ceiling/sides[0].ceiling
		own, ceilings, ratios = append(own, b), append(ceilings, c), append(ratios, b/c)
	}
	note := fmt.Sprintf("batchfs %.3f, C %.3f", figureOf(own).Value, figureOf(ceilings).Value)
	return []row{row{What: what, Unit: "x", figure: figureOf(ratios), Note: note}.atLeast(0.95)}, nil
}

// A side is a mount and C on a number of cores.
type side struct {
	cpus          []int
	training      *training
	rate, ceiling float64 // images per second, of the last measurement
}

func (s *setup) newSide(ctx context.Context, cpus []int) (one *side, err error) {
	one = &side{cpus: cpus}
	err = onCPUs(cpus, func() error {
		m, err := s.mount(ctx, s.photos.dir, shuffled(batchSize, "--resize", "none")...)
		if err != nil {
			return err
		}
		if one.training, err = newTraining(m, "nhwc", mapped); err == nil {
			_, err = one.training.epoch() // warms up memory
		}
		if err != nil {
			_ = m.unmount(s)
		}
		return err
	})
	return one, err
}

func (one *side) measure(ctx context.Context, s *setup) error {
	return onCPUs(one.cpus, func() (err error) {
		if one.ceiling, err = s.runCeiling(ctx, len(one.cpus), s.photos.files); err != nil {
			return err
		}
		one.rate, err = one.training.epoch()
		return err
	})
}

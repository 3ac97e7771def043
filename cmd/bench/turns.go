package main

import (
	"context"

	"github.com/batchfs/batchfs/internal/throughput"
)

// A side takes one measurement.
type side func(ctx context.Context) (float64, error)

// turns lets sides take turns, and returns their figures by side and round. Who goes first
// alternates.
func (s *setup) turns(ctx context.Context, what string, rounds int, sides ...side) ([][]float64, error) {
	figures := make([][]float64, len(sides))
	for i := range rounds {
		s.progress.step(what, i, rounds)
		for k := range sides {
			n := (k + i) % len(sides)
			figure, err := sides[n](ctx)
			if err != nil {
				return nil, err
			}
			figures[n] = append(figures[n], figure)
		}
	}
	return figures, nil
}

// ratios divides figures of the same round.
func ratios(over, under []float64) []float64 {
	list := make([]float64, len(over))
	for i := range list {
		list[i] = over[i] / under[i]
	}
	return list
}

// median is the median of some figures.
func median(x []float64) float64 { return throughput.FigureOf(x).Value }

package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/batchfs/batchfs/internal/throughput"
)

// results are those of a contest, by contender.
type results []result

type result struct {
	rounds  []figures
	missing error // why it could not start, or go on
}

// of returns one figure of a contender, in its unit.
func (r results) of(f figure, i int) (s series) {
	s.missing = r[i].missing
	for _, round := range r[i].rounds {
		s.values = append(s.values, f.scale*round[f])
	}
	return s
}

// fastest is the one of some contenders with the most images per second.
func (r results) fastest(some []int) int {
	return slices.MaxFunc(some, func(i, k int) int {
		return cmp.Compare(r.of(rate, i).median(), r.of(rate, k).median())
	})
}

// row is a row of one figure.
func (r results) row(what string, f figure, i int) row { return measured(what, f.unit, r.of(f, i)) }

// ratio is a row of one figure of two contenders.
func (r results) ratio(what string, f figure, i, j int) row {
	return ratio(what, f.unit, r.of(f, i), r.of(f, j))
}

// A series has a value for each round, or none and the reason.
type series struct {
	values  []float64
	missing error
}

func numbers(x ...float64) series { return series{values: x} }

// skipped is a contest that cannot take place, with its one row.
func skipped(reason, what string) contest {
	return contest{what: what, rows: func(results) []row {
		return []row{measured(what, "", series{missing: errors.New(reason)})}
	}}
}

// with combines values of the same round.
func (s series) with(t series, f func(x, y float64) float64) series {
	out := series{missing: cmp.Or(s.missing, t.missing)}
	if out.missing == nil {
		for i, x := range s.values {
			out.values = append(out.values, f(x, t.values[i]))
		}
	}
	return out
}

func (s series) over(t series) series  { return s.with(t, func(x, y float64) float64 { return x / y }) }
func (s series) minus(t series) series { return s.with(t, func(x, y float64) float64 { return x - y }) }
func (s series) least(t series) series {
	return s.with(t, func(x, y float64) float64 { return min(x, y) })
}
func (s series) most(t series) series {
	return s.with(t, func(x, y float64) float64 { return max(x, y) })
}

// each applies f to each value.
func (s series) each(f func(x float64) float64) series {
	return s.with(s, func(x, _ float64) float64 { return f(x) })
}

func (s series) times(k float64) series { return s.each(func(x float64) float64 { return k * x }) }

// last is the value of the last round alone, for figures that count from the start.
func (s series) last() series { return series{s.values[max(0, len(s.values)-1):], s.missing} }

// median is 0 without values, so that notes can be made of what is missing.
func (s series) median() float64 {
	if len(s.values) == 0 {
		return 0
	}
	return throughput.FigureOf(s.values).Value
}

// String is the median, with as many digits as mean something.
func (s series) String() string {
	x := s.median()
	if x == math.Trunc(x) {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.*f", max(0, min(3, 2-int(math.Floor(math.Log10(max(x, 1e-9)))))), x)
}

// quantile is the smallest of the values that at least the share p of them does not exceed.
func quantile(x []float64, p float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[max(int(math.Ceil(p*float64(len(x))))-1, 0)]
}

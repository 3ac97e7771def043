package machine

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestSetText(t *testing.T) {
	for _, c := range []struct {
		cpus []int
		text string
	}{
		{nil, ""},
		{[]int{0}, "0"},
		{[]int{1, 0}, "0-1"},
		{[]int{3, 2, 1, 0, 8}, "0-3,8"},
		{[]int{0, 2, 4, 4}, "0,2,4"},
		{[]int{63, 64, 127, 128}, "63-64,127-128"},
		{[]int{5000, 1023, 1024}, "1023-1024,5000"},
	} {
		if s := of(c.cpus...); s.String() != c.text || !slices.Equal(cpus(c.text), s) {
			t.Errorf("%v is %q, not %q", c.cpus, s, c.text)
		}
	}
}

// A set behaves like a map of its elements.
func TestSetLaws(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func() (CPUs, []int) {
		var cpus []int
		span := 1 + rng.IntN(300)
		for range rng.IntN(20) {
			cpus = append(cpus, rng.IntN(span))
		}
		s := of(cpus...)
		slices.Sort(cpus)
		return s, slices.Compact(cpus)
	}
	for range 2000 {
		a, as := random()
		b, bs := random()
		var and []int
		for cpu := range 400 {
			inA, inB := slices.Contains(as, cpu), slices.Contains(bs, cpu)
			if a.has(cpu) != inA {
				t.Fatalf("%s has %d: %v", a, cpu, !inA)
			}
			if inA && inB {
				and = append(and, cpu)
			}
		}
		if got := a.and(b); !slices.Equal(got, and) {
			t.Fatalf("%s and %s: %s, not %v", a, b, got, and)
		}
		if a.has(-1) {
			t.Fatalf("%s has -1", a)
		}
	}
}

// of makes a set of CPUs in any order.
func of(cpus ...int) CPUs {
	return slices.Compact(slices.Sorted(slices.Values(cpus)))
}

// cpus reads the form that String writes.
func cpus(text string) (s CPUs) {
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, ok1 := number(from)
		last, ok2 := number(to)
		if !ok1 || !ok2 {
			panic(text)
		}
		for cpu := first; cpu <= last; cpu++ {
			s = append(s, cpu)
		}
	}
	return s
}

package machine

import (
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
	for _, c := range [][3]string{{"", "0-3", ""}, {"0-3,8", "", ""}, {"0-3,8", "2-9", "2-3,8"}, {"5,7", "6,8", ""}, {"1", "1", "1"}} {
		if got := cpus(c[0]).and(cpus(c[1])); got.String() != c[2] {
			t.Errorf("%s and %s: %s, not %s", c[0], c[1], got, c[2])
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

package affinity

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
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
		s := Of(c.cpus...)
		if s.String() != c.text {
			t.Errorf("Of(%v) is %q, not %q", c.cpus, s, c.text)
		}
		back, err := parseSet(c.text + "\n")
		if err != nil || !back.Equal(s) {
			t.Errorf("%q reads as %s, %v", c.text, back, err)
		}
	}
}

func TestSetRefusesText(t *testing.T) {
	for _, text := range []string{"a", "1-", "-1", "3-1", "1,,2", "0-3:1/2", "65536", "0-99999999999999999999", "1 2"} {
		if s, err := parseSet(text); err == nil {
			t.Errorf("%q reads as %s", text, s)
		}
	}
}

// A set behaves like a map of its elements.
func TestSetLaws(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func() (Set, []int) {
		var cpus []int
		span := 1 + rng.IntN(300)
		for range rng.IntN(20) {
			cpus = append(cpus, rng.IntN(span))
		}
		s := Of(cpus...)
		slices.Sort(cpus)
		return s, slices.Compact(cpus)
	}
	for range 2000 {
		a, as := random()
		b, bs := random()
		var and, or []int
		for cpu := range 400 {
			inA, inB := slices.Contains(as, cpu), slices.Contains(bs, cpu)
			if a.Has(cpu) != inA {
				t.Fatalf("%s has %d: %v", a, cpu, !inA)
			}
			if inA && inB {
				and = append(and, cpu)
			}
			if inA || inB {
				or = append(or, cpu)
			}
		}
		same(t, "all", a, as)
		same(t, "and", a.And(b), and)
		same(t, "or", a.Or(b), or)
		if a.Has(-1) || a.Len() != len(as) || a.Empty() != (len(as) == 0) {
			t.Fatalf("%s: length %d, empty %v", a, a.Len(), a.Empty())
		}
		if a.Equal(b) != slices.Equal(as, bs) {
			t.Fatalf("%s equals %s: %v", a, b, a.Equal(b))
		}
		if len(as) > 0 && a.end() != as[len(as)-1]+1 {
			t.Fatalf("%s ends at %d", a, a.end())
		}
	}
}

func same(t *testing.T, what string, s Set, cpus []int) {
	t.Helper()
	if got := slices.Collect(s.All()); !slices.Equal(got, cpus) {
		t.Fatalf("%s: %v, not %v", what, got, cpus)
	}
	if !s.Equal(Of(cpus...)) {
		t.Fatalf("%s: equal elements, unequal sets", what)
	}
}

func TestSetOfMask(t *testing.T) {
	for _, c := range []struct {
		mask []uint
		text string
	}{
		{nil, ""},
		{[]uint{0, 0, 0}, ""},
		{[]uint{0xf0}, "4-7"},
		{[]uint{0, 1}, strconv.Itoa(bits.UintSize)},
	} {
		if s := ofMask(c.mask); s.String() != c.text || !s.Equal(must(parseSet(c.text))) {
			t.Errorf("%x is %q, not %q", c.mask, s, c.text)
		}
	}
}

func must(s Set, err error) Set {
	if err != nil {
		panic(err)
	}
	return s
}

func FuzzParseSet(f *testing.F) {
	f.Add("0-3,8\n")
	f.Add("")
	f.Add("7-0,")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSet(text)
		if err != nil {
			return
		}
		if back, err := parseSet(s.String()); err != nil || !back.Equal(s) {
			t.Errorf("%q reads as %s, which reads as %s, %v", text, s, back, err)
		}
	})
}

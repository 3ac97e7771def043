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
		s := of(c.cpus...)
		if s.String() != c.text {
			t.Errorf("%v is %q, not %q", c.cpus, s, c.text)
		}
		back, ok := parseSet(c.text)
		if !ok || !slices.Equal(back, s) {
			t.Errorf("%q reads as %s, %t", c.text, back, ok)
		}
	}
}

func TestSetRefusesText(t *testing.T) {
	for _, text := range []string{"a", "1-", "-1", "3-1", "1,,2", "0-3:1/2", "65536", "0-99999999999999999999", "1 2"} {
		if s, ok := parseSet(text); ok {
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
		s := of(cpus...)
		slices.Sort(cpus)
		return s, slices.Compact(cpus)
	}
	for range 2000 {
		a, as := random()
		b, bs := random()
		var and, or []int
		for cpu := range 400 {
			inA, inB := slices.Contains(as, cpu), slices.Contains(bs, cpu)
			if a.has(cpu) != inA {
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
		same(t, "and", a.and(b), and)
		same(t, "or", a.or(b), or)
		if a.has(-1) {
			t.Fatalf("%s has -1", a)
		}
		if len(as) > 0 && a.end() != as[len(as)-1]+1 {
			t.Fatalf("%s ends at %d", a, a.end())
		}
	}
}

func same(t *testing.T, what string, s Set, cpus []int) {
	t.Helper()
	if !slices.Equal(s, cpus) {
		t.Fatalf("%s: %v, not %v", what, []int(s), cpus)
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
		if s := ofMask(c.mask); s.String() != c.text || !slices.Equal(s, must(parseSet(c.text))) {
			t.Errorf("%x is %q, not %q", c.mask, s, c.text)
		}
	}
}

func must(s Set, ok bool) Set {
	if !ok {
		panic("no set")
	}
	return s
}

// of makes a set of CPUs in any order.
func of(cpus ...int) Set { return Set(cpus).or(nil) }

func FuzzParseSet(f *testing.F) {
	f.Add("0-3,8")
	f.Add("")
	f.Add("7-0,")
	f.Fuzz(func(t *testing.T, text string) {
		s, ok := parseSet(text)
		if !ok {
			return
		}
		if back, ok := parseSet(s.String()); !ok || !slices.Equal(back, s) {
			t.Errorf("%q reads as %s, which reads as %s, %t", text, s, back, ok)
		}
	})
}

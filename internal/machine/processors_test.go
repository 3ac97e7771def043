package machine

import (
	"slices"
	"strings"
	"testing"
)

func TestFirstOf(t *testing.T) {
	for list, want := range map[string]string{
		"0": "0", "2,0": "2", " 3 , 1": "3", "GPU-8932f937,1": "GPU-8932f937", "MIG-GPU-1/2/3": "MIG-GPU-1/2/3", "": "",
	} {
		if got, found := firstOf(list); !found || got != want {
			t.Errorf("%q: %q, not %q", list, got, want)
		}
	}
	for _, list := range []string{"-1", "-1,0", ",0", "NoDevFiles", "0x1", NoGPU, "void"} {
		if got, found := firstOf(list); found {
			t.Errorf("%q: %q", list, got)
		}
	}
}

func TestDeviceFor(t *testing.T) {
	for _, c := range []struct{ choice, devices, want string }{
		{"1", "", "1"}, {"1", "3,GPU-x", "GPU-x"}, {"0", "3,GPU-x", "3"}, {"2", "3,GPU-x", NoGPU}, {"0", NoGPU, NoGPU},
		{"1", " 3 , 4", "4"}, {"2", "3,-1,2", NoGPU}, {"1", "3,", NoGPU},
		{"GPU-y", "3", "GPU-y"}, {NoGPU, "3", NoGPU},
	} {
		if got := deviceFor(c.choice, c.devices); got != c.want {
			t.Errorf("%q among %q: %q", c.choice, c.devices, got)
		}
	}
}

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

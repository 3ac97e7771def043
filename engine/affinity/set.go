package affinity

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// maxCPUs limits the CPU and NUMA node numbers that are accepted, so that no text can create an
// arbitrarily large set. Kernels are configured for a few thousand.
const maxCPUs = 1 << 16

// A Set is a set of CPUs, of any number. It is immutable; the zero value is empty, and as the
// CPUs of a worker it means that none were chosen. Sets are not comparable with ==: see
// [Set.Equal].
type Set struct {
	words []uint64 // bit i%64 of word i/64; the last word is not 0
}

// Of returns a set of CPUs, none of which may be negative.
func Of(cpus ...int) Set {
	var s Set
	for _, cpu := range cpus {
		s.add(cpu)
	}
	return s
}

// add is only for sets under construction.
func (s *Set) add(cpu int) {
	if need := cpu/64 + 1; need > len(s.words) {
		s.words = append(s.words, make([]uint64, need-len(s.words))...)
	}
	s.words[cpu/64] |= 1 << (cpu % 64)
}

// ofWords takes ownership of words, in the order of Set's.
func ofWords(words []uint64) Set {
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	return Set{words}
}

// ofMask converts a mask in words of the machine's size, as used by NVML.
func ofMask(mask []uint) Set {
	words := make([]uint64, (len(mask)*bits.UintSize+63)/64)
	for i, w := range mask {
		at := i * bits.UintSize
		words[at/64] |= uint64(w) << (at % 64)
	}
	return ofWords(words)
}

// Has reports whether a CPU is in the set.
func (s Set) Has(cpu int) bool {
	return cpu >= 0 && cpu/64 < len(s.words) && s.words[cpu/64]>>(cpu%64)&1 == 1
}

// Empty reports whether no CPU is in the set.
func (s Set) Empty() bool { return len(s.words) == 0 }

// Len is the number of CPUs in the set.
func (s Set) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// All yields the CPUs in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(i*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// end is one more than the set's highest CPU.
func (s Set) end() int {
	if s.Empty() {
		return 0
	}
	last := len(s.words) - 1
	return last*64 + bits.Len64(s.words[last])
}

// Equal reports whether two sets hold the same CPUs.
func (s Set) Equal(t Set) bool { return slices.Equal(s.words, t.words) }

// And returns the CPUs that are in both sets.
func (s Set) And(t Set) Set {
	words := make([]uint64, min(len(s.words), len(t.words)))
	for i := range words {
		words[i] = s.words[i] & t.words[i]
	}
	return ofWords(words)
}

// Or returns the CPUs that are in either set.
func (s Set) Or(t Set) Set {
	if len(s.words) < len(t.words) {
		s, t = t, s
	}
	words := slices.Clone(s.words)
	for i, w := range t.words {
		words[i] |= w
	}
	return Set{words}
}

// String is the set in the kernel's form, "0-3,8"; the empty set is "".
func (s Set) String() string {
	var b []byte
	first, last := -1, -1
	flush := func() {
		switch {
		case first < 0:
			return
		case len(b) > 0:
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(first), 10)
		if last > first {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(last), 10)
		}
	}
	for cpu := range s.All() {
		if first < 0 || cpu != last+1 {
			flush()
			first = cpu
		}
		last = cpu
	}
	flush()
	return string(b)
}

// MarshalText is String, for documents.
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// parseSet reads the kernel's form, as in /sys: "0-3,8\n", or nothing.
func parseSet(text string) (Set, error) {
	var s Set
	text = strings.TrimSpace(text)
	if text == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, ok1 := number(from)
		last, ok2 := number(to)
		if !ok1 || !ok2 || first > last {
			return Set{}, fmt.Errorf("%q is no list of CPUs", text)
		}
		for cpu := first; cpu <= last; cpu++ {
			s.add(cpu)
		}
	}
	return s, nil
}

// number parses a number below maxCPUs that consists of decimal digits only.
func number(digits string) (int, bool) {
	n := 0
	for _, d := range []byte(digits) {
		if d < '0' || d > '9' {
			return 0, false
		}
		if n = n*10 + int(d-'0'); n >= maxCPUs {
			return 0, false
		}
	}
	return n, digits != ""
}

package affinity

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxCPUs limits the CPU and NUMA node numbers that are accepted. Kernels are configured for a
// few thousand.
const maxCPUs = 1 << 16

// A Set is a set of CPUs, in ascending order. As the CPUs of a worker, the empty set means that
// none were chosen.
type Set []int

func (s Set) has(cpu int) bool {
	_, found := slices.BinarySearch(s, cpu)
	return found
}

// end is one more than the set's highest CPU.
func (s Set) end() int { return slices.Max(append(Set{-1}, s...)) + 1 }

func (s Set) and(t Set) Set {
	return slices.DeleteFunc(slices.Clone(s), func(cpu int) bool { return !t.has(cpu) })
}

func (s Set) or(t Set) Set {
	all := slices.Concat(s, t)
	slices.Sort(all)
	return slices.Compact(all)
}

// String is the set in the kernel's form, "0-3,8"; the empty set is "".
func (s Set) String() string {
	var ranges []string
	for len(s) > 0 {
		n := 1
		for n < len(s) && s[n] == s[0]+n {
			n++
		}
		text := strconv.Itoa(s[0])
		if n > 1 {
			text += "-" + strconv.Itoa(s[n-1])
		}
		ranges, s = append(ranges, text), s[n:]
	}
	return strings.Join(ranges, ",")
}

// parseSet reads the kernel's form, as in /sys: "0-3,8", or nothing.
func parseSet(text string) (s Set, ok bool) {
	if text == "" {
		return nil, true
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, ok1 := number(from)
		last, ok2 := number(to)
		if !ok1 || !ok2 || first > last {
			return nil, false
		}
		for cpu := first; cpu <= last; cpu++ {
			s = append(s, cpu)
		}
	}
	return s.or(nil), true
}

// number parses a number below maxCPUs of decimal digits only.
func number(digits string) (int, bool) {
	n, err := strconv.ParseUint(digits, 10, 64)
	return int(n), err == nil && n < maxCPUs
}

// ofMask converts a mask as used by NVML.
func ofMask(mask []uint) (s Set) {
	for i, word := range mask {
		for ; word != 0; word &= word - 1 {
			s = append(s, i*bits.UintSize+bits.TrailingZeros(word))
		}
	}
	return s
}

// Pin restricts the calling thread to the CPUs of a set; it does nothing for the empty set. The
// goroutine must be locked to its thread (runtime.LockOSThread) and must end without unlocking
// it, so that the thread ends too: otherwise other goroutines would run on the worker's CPUs.
func Pin(s Set) error {
	if len(s) == 0 {
		return nil
	}
	mask := unix.NewCPUSet(s.end())
	for _, cpu := range s {
		mask.Set(cpu)
	}
	if err := unix.SchedSetaffinityDynamic(0, mask); err != nil {
		return fmt.Errorf("pin the thread to CPUs %s: %w", s, err)
	}
	return nil
}

// Current returns the set of CPUs that the calling thread may run on.
func Current() (Set, error) { return maskOf(0) }

// maskOf returns the CPUs of a thread, 0 for the caller. The kernel refuses a mask that cannot
// hold all the CPUs it was configured for, and does not say how many those are.
func maskOf(thread int) (Set, error) {
	mask := unix.NewCPUSet(maxCPUs)
	if err := unix.SchedGetaffinityDynamic(thread, mask); err != nil {
		return nil, fmt.Errorf("ask for the CPUs of thread %d: %w", thread, err)
	}
	var s Set
	for cpu := range maxCPUs {
		if mask.IsSet(cpu) {
			s = append(s, cpu)
		}
	}
	return s, nil
}

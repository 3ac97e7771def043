package machine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxCPUs limits the numbers that are accepted. Kernels are configured for a few thousand CPUs.
const maxCPUs = 1 << 16

// CPUs are a set of CPUs, in ascending order. As the CPUs of a worker, the empty set means that
// none were chosen.
type CPUs []int

func (s CPUs) has(cpu int) bool {
	_, found := slices.BinarySearch(s, cpu)
	return found
}

func (s CPUs) and(t CPUs) CPUs {
	return slices.DeleteFunc(slices.Clone(s), func(cpu int) bool { return !t.has(cpu) })
}

// String is the set in the kernel's form, "0-3,8"; the empty set is "".
func (s CPUs) String() string {
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

// Pin restricts the calling thread to the CPUs of a set; it does nothing for the empty set. The
// goroutine must be locked to its thread (runtime.LockOSThread) and must end without unlocking
// it, so that the thread ends too: otherwise other goroutines would run on the worker's CPUs.
func Pin(s CPUs) error {
	if len(s) == 0 {
		return nil
	}
	mask := unix.NewCPUSet(maxCPUs)
	for _, cpu := range s {
		mask.Set(cpu)
	}
	if err := unix.SchedSetaffinityDynamic(0, mask); err != nil {
		return fmt.Errorf("pin the thread to CPUs %s: %w", s, err)
	}
	return nil
}

// CurrentCPUs returns the set of CPUs that the calling thread may run on.
func CurrentCPUs() (s CPUs, err error) {
	// The kernel refuses a mask that cannot hold all the CPUs it was configured for, and does not
	// say how many there are.
	mask := unix.NewCPUSet(maxCPUs)
	if err := unix.SchedGetaffinityDynamic(0, mask); err != nil {
		return nil, fmt.Errorf("ask for the CPUs of this thread: %w", err)
	}
	for cpu := range maxCPUs {
		if mask.IsSet(cpu) {
			s = append(s, cpu)
		}
	}
	return s, nil
}

package affinity

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/batchfs/batchfs/internal/option"
)

// Near is written in place of a list, for workers that all run near the GPU.
const Near = "gpu"

const (
	blanks    = " \t"
	entryRule = `a decimal CPU number, as in "3,5,6,10", not a range or mask`
)

// Parse reads a list of CPUs for workers 0, 1, and so on: decimal numbers separated by commas,
// with optional blanks around them. An empty or blank text is no list: nil. The error is an
// [*option.Error] that names the entry, counted from 1. [Assign] checks whether the process may
// use these CPUs.
func Parse(list string) ([]int, error) {
	if strings.Trim(list, blanks) == "" {
		return nil, nil
	}
	var cpus []int
	for i, entry := range strings.Split(list, ",") {
		entry = strings.Trim(entry, blanks)
		cpu, ok := number(entry)
		if !ok {
			return nil, entryError(i, entryRule, entry)
		}
		cpus = append(cpus, cpu)
	}
	return cpus, nil
}

// number parses a number below maxCPUs of decimal digits only.
func number(digits string) (int, bool) {
	n, err := strconv.ParseUint(digits, 10, 64)
	return int(n), err == nil && n < maxCPUs
}

func entryError(i int, rule, value string) error {
	return &option.Error{Field: fmt.Sprintf("entry %d", i+1), Rule: rule, Value: strconv.Quote(value)}
}

// Assign returns one CPU set for each worker: list[t] alone for worker t, and [Machine.Near] for
// workers past the end of the list. An empty set, as for all workers without a list, means that
// the worker is not pinned. The whole list is checked, including entries past the last worker;
// the error is an [*option.Error].
func Assign(list []int, workers int, m Machine) ([]Set, error) {
	for i, cpu := range list {
		if !m.Allowed.has(cpu) {
			return nil, entryError(i, fmt.Sprintf("one of the CPUs this process may use, %s", m.Allowed), strconv.Itoa(cpu))
		}
	}
	sets := make([]Set, workers)
	if len(list) == 0 {
		return sets, nil
	}
	for t := range sets {
		sets[t] = m.Near
		if t < len(list) {
			sets[t] = Set{list[t]}
		}
	}
	return sets, nil
}

package machine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/batchfs/batchfs/internal/option"
)

// ErrNoneNear means that workers cannot run near the GPU.
var ErrNoneNear = errors.New("NVML recommends no CPUs")

const (
	near      = "gpu" // instead of a list: all workers run near the GPU
	blanks    = " \t"
	entryRule = `a decimal CPU number, as in "3,5,6,10", not a range or mask`
)

// Place returns the CPUs of each worker, and those of threads that work for the GPU; nil: any.
//
// list has the CPUs of workers 0, 1, and so on: decimal numbers separated by commas, with optional
// blanks around them. Workers past its end run near the GPU. "gpu" instead of a list makes all
// workers and the threads run there. An empty or blank text is no list.
//
// The GPU is the first of visible, the value of CUDA_VISIBLE_DEVICES; or if choice is not "", the
// one that choice means there.
//
// An [*option.Error] names the entry of the list that is wrong, counted from 1.
func Place(list string, workers int, choice, visible string) (sets []CPUs, nearGPU CPUs, err error) {
	if choice != "" {
		visible = deviceFor(choice, visible)
	}
	if strings.TrimSpace(list) == near {
		m, err := FindProcessors(visible)
		if err == nil && len(m.Near) == 0 {
			err = fmt.Errorf("%w that this process may use (%s) for a GPU", ErrNoneNear, m.Allowed)
		}
		return slices.Repeat([]CPUs{m.Near}, workers), m.Near, err
	}
	cpus, err := parse(list)
	if err != nil || cpus == nil {
		return nil, nil, err
	}
	if workers <= len(cpus) {
		visible = NoGPU
	}
	m, err := FindProcessors(visible)
	if err != nil {
		return nil, nil, err
	}
	sets, err = assign(cpus, workers, m)
	return sets, nil, err
}

// parse reads a list of CPUs. An empty one is nil.
func parse(list string) ([]int, error) {
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

// assign returns one CPU set for each worker: list[t] alone for worker t, and [Processors.Near] for
// workers past the end of the list. If Near is empty, these are not pinned. assign checks the whole
// list, including entries past the last worker; the error is an [*option.Error].
func assign(list []int, workers int, m Processors) ([]CPUs, error) {
	for i, cpu := range list {
		if !m.Allowed.has(cpu) {
			return nil, entryError(i, fmt.Sprintf("one of the CPUs this process may use, %s", m.Allowed), strconv.Itoa(cpu))
		}
	}
	sets := make([]CPUs, workers)
	for t := range sets {
		sets[t] = m.Near
		if t < len(list) {
			sets[t] = CPUs{list[t]}
		}
	}
	return sets, nil
}

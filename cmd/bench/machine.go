package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A machine describes where the figures were taken.
type machine struct {
	Processor string  `json:"processor"`
	CPUs      int     `json:"cpus"`
	Kernel    string  `json:"kernel"`
	Date      string  `json:"date"`
	Load      float64 `json:"load"`    // average over the last minute, before the first measurement
	Ceiling   string  `json:"ceiling"` // the libraries C uses
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %d CPUs, %s, kernel %s, load %.1f; C is %s", m.Processor, m.CPUs, m.Date, m.Kernel, m.Load, m.Ceiling)
}

func thisMachine(ctx context.Context, s *setup) machine {
	libraries, err := exec.CommandContext(ctx, s.ceiling, "-libraries").Output()
	if err != nil {
		libraries = []byte("unknown")
	}
	load, _ := strconv.ParseFloat(word("/proc/loadavg"), 64)
	return machine{
		Processor: processor(), CPUs: runtime.NumCPU(), Kernel: word("/proc/sys/kernel/osrelease"), Load: load,
		Date:    time.Now().Format(time.DateOnly),
		Ceiling: strings.TrimSpace(string(libraries)),
	}
}

// busy reports that other processes use the machine so much that figures mean little: they
// would depend on the scheduler and on each side's number of threads. Building batchfs just
// before stays below the threshold.
func (m machine) busy() bool { return m.Load > 1.5*float64(m.CPUs) }

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	_, rest, _ := strings.Cut(string(text), "model name")
	name, _, _ := strings.Cut(strings.TrimLeft(rest, "\t :"), "\n")
	return cmp.Or(name, "unknown processor")
}

// word is the first word of a kernel file.
func word(path string) string {
	text, err := os.ReadFile(path)
	if words := strings.Fields(string(text)); err == nil && len(words) > 0 {
		return words[0]
	}
	return "unknown"
}

// cores returns the CPUs this process may use, one per core if threads share a core.
func cores() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var cpus []int
	seen := map[string]bool{}
	for cpu := range len(set) * 64 {
		if !set.IsSet(cpu) {
			continue
		}
		siblings, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
		if core := string(siblings); err != nil || !seen[core] {
			seen[core] = true
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// onCPUs runs f on these CPUs only. Processes that f starts inherit that; its goroutines do
// not.
func onCPUs(cpus []int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("run on CPUs %v: %w", cpus, err)
	}
	defer unix.SchedSetaffinity(0, &before)
	return f()
}

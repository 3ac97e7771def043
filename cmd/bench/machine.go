package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batchfs/batchfs/engine/affinity"
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

// number is the number after a name in a kernel file, or the first one of the file if the name
// is empty.
func number(path, name string) (n int64, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut("\n"+string(text), "\n"+name)
	if _, err = fmt.Sscan(rest, &n); err != nil || !found {
		return 0, fmt.Errorf("%s has no number %s", path, name)
	}
	return n, nil
}

// cores returns the CPUs this process may use, one per core if threads share a core.
func cores() (affinity.Set, error) {
	cpus, err := affinity.Current()
	seen := map[string]bool{}
	return slices.DeleteFunc(cpus, func(cpu int) bool {
		siblings, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
		core := string(siblings)
		known := err == nil && seen[core]
		seen[core] = true
		return known
	}), err
}

// onCPUs runs f on these CPUs only. Processes that f starts inherit that; its goroutines do
// not.
func onCPUs(cpus affinity.Set, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := affinity.Current()
	if err != nil {
		return err
	}
	if err := affinity.Pin(cpus); err != nil {
		return err
	}
	return errors.Join(f(), affinity.Pin(before))
}

package main

import (
	"bufio"
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

// A machine is what the figures were taken on.
type machine struct {
	Processor string  `json:"processor"`
	CPUs      int     `json:"cpus"`
	Kernel    string  `json:"kernel"`
	Date      string  `json:"date"`
	Load      float64 `json:"load"`    // average of the last minute, before the first measurement
	Ceiling   string  `json:"ceiling"` // the libraries that C is made of
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

// busy says that others work here so much that figures mean little: the scheduler
// then decides them, by how many threads each side has. Building batchfs just before
// is less than that.
func (m machine) busy() bool { return m.Load > 1.5*float64(m.CPUs) }

func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if name, ok := strings.CutPrefix(in.Text(), "model name"); ok {
			return strings.TrimLeft(name, "\t :")
		}
	}
	return "unknown processor"
}

// word is the first word of a file of the kernel's.
func word(path string) string {
	text, err := os.ReadFile(path)
	if words := strings.Fields(string(text)); err == nil && len(words) > 0 {
		return words[0]
	}
	return "unknown"
}

// cores are CPUs that this process may use, one a core where threads share one.
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

// onCPUs runs f on these CPUs alone, and so the processes that f starts, but not its
// goroutines.
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

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

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/machine"
)

// describeMachine prints where the figures are taken.
func (b *bench) describeMachine(ctx context.Context) {
	libraries, err := exec.CommandContext(ctx, b.ceiling, "-libraries").Output()
	if err != nil {
		libraries = []byte("unknown")
	}
	var load float64 // over the last minute
	_, _ = fmt.Sscan(line("/proc/loadavg", ""), &load)
	cpus := runtime.NumCPU()
	fmt.Printf("%s, %d CPUs, %s, kernel %s, load %.1f; C is %s\n",
		cmp.Or(line("/proc/cpuinfo", "model name\t:"), "unknown processor"), cpus, time.Now().Format(time.DateOnly),
		line("/proc/sys/kernel/osrelease", ""), load, strings.TrimSpace(string(libraries)))
	// Figures would depend on the scheduler and on each side's number of threads. Building
	// batchfs just before stays below the threshold.
	if load > 1.5*float64(cpus) {
		fmt.Println("WARNING: others work on this machine, so that these figures mean little")
	}
}

// line is what follows a name at the start of a line of a kernel file, or else empty.
func line(path, name string) string {
	text, _ := os.ReadFile(path)
	_, rest, _ := strings.Cut("\n"+string(text), "\n"+name)
	rest, _, _ = strings.Cut(rest, "\n")
	return strings.TrimSpace(rest)
}

// number is the number after a name in a kernel file.
func number(path, name string) (n int64, err error) {
	if _, err = fmt.Sscan(line(path, name), &n); err != nil {
		err = fmt.Errorf("%s has no number %s", path, name)
	}
	return n, err
}

// cores returns the CPUs this process may use, one per core if threads share a core.
func cores() (machine.CPUs, error) {
	cpus, err := machine.CurrentCPUs()
	seen := map[string]bool{}
	return slices.DeleteFunc(cpus, func(cpu int) bool {
		siblings, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
		core := string(siblings)
		known := err == nil && seen[core]
		seen[core] = true
		return known
	}), err
}

// onCPUs works on these CPUs only. Processes that are started meanwhile inherit that; goroutines
// do not. Without any, it works wherever the process may.
func onCPUs(cpus machine.CPUs, work func() error) error {
	if len(cpus) == 0 {
		return work()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := machine.CurrentCPUs()
	if err != nil {
		return err
	}
	if err := machine.Pin(cpus); err != nil {
		return err
	}
	return errors.Join(work(), machine.Pin(before))
}

// on is a contender on these CPUs only.
func (c contender) on(cpus machine.CPUs) contender {
	return c.within(func(_ context.Context, work func() error) error { return onCPUs(cpus, work) })
}

// pinProcess moves a process, with all its threads, to these CPUs.
func pinProcess(pid int, cpus machine.CPUs) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			_ = unix.SchedSetaffinity(id, &set) // fails for threads that have ended
		}
	}
	return err
}

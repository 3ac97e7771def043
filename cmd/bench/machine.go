package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/machine"
)

// This file is about processors, and about how much of them, and of memory, processes use.

// cores returns the CPUs this process may use, one per core if threads share a core.
func cores() machine.CPUs {
	seen := map[string]bool{}
	return slices.DeleteFunc(must(machine.CurrentCPUs()), func(cpu int) bool {
		siblings, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
		core := string(siblings)
		known := err == nil && seen[core]
		seen[core] = true
		return known
	})
}

// someCPUs are the first n that this process may use.
func someCPUs(n int) machine.CPUs {
	cpus := must(machine.CurrentCPUs())
	return cpus[:min(n, len(cpus))]
}

// onCPUs runs a function on these CPUs only, or, if there are none, on all that the process may
// use. Processes that are started meanwhile inherit the CPUs; goroutines do not.
func onCPUs(cpus machine.CPUs, work func()) {
	if len(cpus) > 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before := must(machine.CurrentCPUs())
		check(machine.Pin(cpus))
		defer func() { check(machine.Pin(before)) }()
	}
	work()
}

// on returns a contender that runs on these CPUs only.
func (c contender) on(cpus machine.CPUs) contender {
	return c.inside(func(work func()) { onCPUs(cpus, work) })
}

// pinProcess moves a process, with all its threads, to these CPUs.
func pinProcess(pid int, cpus machine.CPUs) {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	for _, thread := range must(os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))) {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			_ = unix.SchedSetaffinity(id, &set) // fails for threads that have ended
		}
	}
}

// clock is a process's processor time so far, in seconds, over all threads, including those
// that have ended.
func clock(pid int) float64 {
	const scheduled = 2 // the process CPU clock that does not count in ticks (CPUCLOCK_SCHED)
	var now unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &now); err != nil {
		check(fmt.Errorf("processor time of process %d: %w", pid, err))
	}
	return float64(now.Sec) + float64(now.Nsec)/1e9
}

// peakOf is a daemon's peak memory so far: RSS, including shared pages.
func peakOf(m *daemon.Mount) float64 {
	return float64(must(number(fmt.Sprintf("/proc/%d/status", m.Cmd.Process.Pid), "VmHWM:")) << 10)
}

// held is the memory of some processes, in bytes. Its PSS counts each page that several share once;
// a page that processes outside share, too, in part. shm are the files in /dev/shm that they have
// open, which pass batches between processes: what they have mapped is in the PSS, too.
type held struct{ pss, shm float64 }

// memoryOf returns the memory of processes. Those that have ended have none.
func memoryOf(pids []int) (h held) {
	seen := map[uint64]bool{}
	for _, pid := range pids {
		kb, err := number(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")
		if err != nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			continue
		}
		check(err)
		h.pss += float64(kb << 10)
		open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, fd := range open {
			var st syscall.Stat_t
			to, err := os.Readlink(fd)
			if err != nil || !strings.HasPrefix(to, "/dev/shm/") || syscall.Stat(fd, &st) != nil || seen[st.Ino] {
				continue
			}
			seen[st.Ino] = true
			h.shm += float64(512 * st.Blocks)
		}
	}
	return h
}

// group returns the processes of a process group.
func group(leader int) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range all {
		pid, err := strconv.Atoi(filepath.Base(path))
		if id, failed := syscall.Getpgid(pid); err == nil && failed == nil && id == leader {
			pids = append(pids, pid)
		}
	}
	return pids
}

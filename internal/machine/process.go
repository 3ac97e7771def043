package machine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"
)

// This file has the settings of a process that does little else than run an engine. An engine does
// none of this by itself, since it is also a part of other programs.

// LimitHeap bounds the garbage on the Go heap of a process that runs an engine under a memory
// limit. Batches do not live there, but the index does, which takes so many bytes. If Go collected
// only at twice the heap's size, the index would count double. remote: the dataset is in a store.
func LimitHeap(index, limit int64, remote bool) {
	// This is for requests, scratch memory of Go's own decoders, and documents. Below least, the
	// collector would run all the time. Each request to a store leaves garbage, which would fill
	// all of most.
	const least, most = 24 << 20, 96 << 20
	rest := min(max(limit/4, least), most)
	if remote {
		rest = least
		// There is little else on the heap. On one CPU, 2,170 images a second were read instead of
		// 2,070.
		debug.SetGCPercent(400)
	}
	debug.SetMemoryLimit(min(math.MaxInt64/2, index+index/8+rest))
	debug.FreeOSMemory() // garbage from reading the index
}

// GoProcessors is how many goroutines Go's scheduler should run at a time, as GOMAXPROCS, for an
// engine that decodes with so many workers: more than there are CPUs. A goroutine in C (as drawers
// nearly always are) or in a system call (as readers of requests are) counts as running until Go's
// monitor looks, up to 10 ms later. Without spare processors, a complete batch waited for that: an
// open took 50 ms instead of 37 with 2 CPUs.
//
// Workers that wait for a store do so in Go, and only as many as there are CPUs decode, so fewer
// processors are enough there. On one CPU, three processors make as many images a second as two;
// with one processor, it is 2 % fewer if answers come within 20 ms.
func GoProcessors(cpus, workers int, remote bool) int {
	if remote {
		return cpus + (cpus+1)/2
	}
	return 2*cpus + min(workers, cpus)
}

// FinishSlices gives all threads of this process, and those that they start, the policy
// SCHED_BATCH: a thread that wakes up does not take the CPU from the one that is running, but waits
// for the end of its time slice, a few ms. A thread wakes up at each answer of a store, or of a
// disk, and would often take the CPU from the decoder, and then empty its caches. In a mount of a
// store, threads changed 2,942 times for 1,024 images on one CPU without this policy, and 517 times
// with it. That made 4 to 6 % more images a second, and 9 to 15 % more on CPUs that the store uses,
// too. On two CPUs, it was 9 to 15 % more from a disk, and 2 to 5 % more from the page cache.
// Readers that pause between batches open them no later in the median: after 0.3 to 0.5 ms instead
// of 0.5 to 0.8.
//
// Threads that have another policy already, by the user's choice, keep it. Nothing but speed
// depends on the error.
func FinishSlices() error {
	// Try again while a thread without the policy may have started others; and once more after
	// that, because the kernel's list ends early if a thread ends while it is read.
	for clean, tries := 0, 0; clean < 2 && tries < 10; tries++ {
		clean++
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			now, err := unix.SchedGetAttr(id, 0)
			if err == nil && now.Policy == unix.SCHED_NORMAL {
				clean = 0
				err = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_BATCH, Nice: now.Nice}, 0)
			}
			if err != nil && !errors.Is(err, unix.ESRCH) { // that thread has ended
				return fmt.Errorf("scheduling policy of the threads: %w", err)
			}
		}
	}
	return nil
}

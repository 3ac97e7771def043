package machine

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestFinishSlices: existing threads, and those that they start, finish their time slices, except
// threads for which the user has chosen otherwise.
func TestFinishSlices(t *testing.T) {
	chosen, end := make(chan int), make(chan bool)
	defer close(end)
	stay := func(policy uint32) {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		if policy != unix.SCHED_NORMAL {
			if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy, Nice: 5}, 0); err != nil {
				t.Error(err)
			}
		}
		chosen <- unix.Gettid()
		<-end
	}
	go stay(unix.SCHED_NORMAL)
	plain := <-chosen
	go stay(unix.SCHED_IDLE)
	idle := <-chosen
	testkit.Must(t, unix.Setpriority(unix.PRIO_PROCESS, plain, 7))
	testkit.Must(t, FinishSlices())
	go stay(unix.SCHED_NORMAL)
	later := <-chosen
	threads, err := os.ReadDir("/proc/self/task")
	testkit.Must(t, err)
	seen := 0
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		testkit.Must(t, err)
		attr, err := unix.SchedGetAttr(id, 0)
		if err != nil {
			continue // it has ended
		}
		want := uint32(unix.SCHED_BATCH)
		if id == idle {
			want = unix.SCHED_IDLE
		}
		if attr.Policy != want {
			t.Errorf("thread %d has the policy %d, not %d", id, attr.Policy, want)
		}
		if id == plain && attr.Nice != 7 {
			t.Errorf("its niceness became %d", attr.Nice)
		}
		if id == plain || id == idle || id == later {
			seen++
		}
	}
	if seen != 3 {
		t.Errorf("%d of 3 threads were seen", seen)
	}
}

package stress

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// calm reads everything after all disturbances have ended. Every batch must open with the
// bytes of the undisturbed dataset, in every form, if not at once then soon.
func (r *round) calm() {
	if r.failed() || !r.daemon.Running() {
		return
	}
	r.note("calm")
	reader, err := startReader(r.file("brief.json"))
	if err != nil {
		r.find("%v", err)
		return
	}
	defer reader.End()
	for _, x := range r.oracle.Batches {
		for _, form := range layout.Forms() {
			if x.Victim < 0 && form != layout.NPY && r.random.IntN(8) > 0 {
				continue // a sample of the others suffices
			}
			if form == layout.JSON && (x.Victim >= 0 || x.Bad) {
				continue // it contains the reason why a file is bad
			}
			r.calmly(reader, wish{Key: x.Key, Form: form})
			if r.failed() {
				return
			}
		}
	}
}

// calmly reads a batch until it is right. A batch prefetched during a disturbance may be
// served once more.
func (r *round) calmly(reader *reader, w wish) {
	const tries = 200
	for try := 1; ; try++ {
		got, err := reader.read([]wish{w})
		if err != nil {
			r.find("%v", err)
			r.daemon.Dump()
			return
		}
		if r.oracle.right(got[0]) {
			return
		}
		r.note("  %v", &got[0])
		if try == tries {
			r.find("when nothing is wrong any more, after %d tries: %v", tries, &got[0])
			return
		}
		r.weather.add(0, retries, 1)
		// Another batch is opened, so that a kept one can be dropped.
		other := r.oracle.Batches[r.random.IntN(len(r.oracle.Batches))].Key
		other.Shard = w.Key.Shard
		_, _ = reader.read([]wish{{Key: other, Form: layout.NPY}})
		time.Sleep(20 * time.Millisecond)
	}
}

// tearDown ends the mount in one of several ways and checks what the daemon leaves behind.
func (r *round) tearDown() {
	if r.daemon.Running() && !r.failed() {
		if kept := r.daemon.keptFor(patience / 2); kept != "" {
			r.find("when nobody reads any more, %s", kept)
		}
	}
	if r.daemon.Running() {
		r.finish()
	}
	for _, d := range r.former {
		r.expectEnd(d)
	}
	r.endContainers()
	for _, f := range r.stuck {
		_ = f.Close()
	}
	if r.storage != nil {
		if err := r.storage.End(); err != nil {
			r.find("the storage: %v", err)
		}
	}
	if left, err := testkit.MountsBelow(r.Dir); err != nil || len(left) > 0 {
		r.find("mounts are left: %v %v", left, err)
		for _, path := range left {
			_ = unix.Unmount(path, unix.MNT_DETACH)
		}
	}
}

// finish ends the daemon with a command or a signal, including one that dumps its
// goroutines.
func (r *round) finish() {
	how := pick(r.random, "umount", "SIGTERM", "SIGINT", "SIGQUIT")
	r.note("the end, by %s", how)
	switch {
	case how == "SIGTERM":
		r.daemon.Signal(syscall.SIGTERM)
	case how == "SIGINT":
		r.daemon.Signal(syscall.SIGINT)
	case how == "SIGQUIT" && !r.Settings.StuckLog && !r.failed():
		r.quit()
		return
	default:
		if err := unmountAnyway(r.Mount); err != nil {
			r.find("at the end: %v", err)
		}
	}
	r.expectEnd(r.daemon)
}

// quit has the daemon dump its goroutines, none of which may still be in an open, and
// clears the mount it leaves.
func (r *round) quit() {
	if err := testkit.Complaint(r.daemon.Logged()); err != nil {
		r.find("%v", err)
	}
	before := len(r.daemon.Logged())
	r.daemon.Dump()
	stacks := r.daemon.Logged()[before:]
	began, n := origins(stacks), 0
	for _, count := range began {
		n += count
	}
	if n == 0 || n > most(r.Settings) {
		r.find("the daemon has %d goroutines, by where they began: %v", n, began)
	}
	for _, name := range []string{"engine.(*Engine).Open(", "engine.(*readers).await(", "engine.(*Engine).Describe("} {
		if strings.Contains(stacks, name) {
			r.find("nobody reads, and the daemon is in %s", name)
		}
	}
	if err := unmount(r.Mount); err != nil {
		r.find("at the end: %v", err)
	}
}

// origins counts goroutines by where they were started. The runtime's own are left out: there are
// several for each processor.
func origins(stacks string) map[string]int {
	counts := map[string]int{}
	for line := range strings.Lines(stacks) {
		if by, ok := strings.CutPrefix(line, "created by "); ok && !strings.HasPrefix(by, "runtime.") {
			by, _, _ = strings.Cut(strings.TrimSpace(by), " in goroutine ")
			counts[by]++
		}
	}
	return counts
}

// most is the maximum number of goroutines of an idle daemon: its workers, loads that rest after
// storage was slow, readers of the kernel's requests, and a few watchers.
func most(s settings) int { return s.Workers + s.BatchWorkers + 64 }

// String makes settings readable in a finding.
func (s settings) String() string {
	return fmt.Sprint(s.flags(), " faulty storage: ", s.FaultyFS, " stuck log: ", s.StuckLog)
}

// keptFor waits until an idle daemon keeps nothing it should not; prefetching may still be
// in progress. It returns what is left after most, when everything should be gone.
func (d *daemon) keptFor(most time.Duration) string {
	for deadline := time.Now().Add(most); ; time.Sleep(20 * time.Millisecond) {
		kept := d.kept()
		if kept == "" || time.Now().After(deadline) {
			return kept
		}
	}
}

// kept describes what the daemon still holds and should not.
func (d *daemon) kept() string {
	s, err := d.stats()
	if err != nil {
		return err.Error()
	}
	reserved, err := d.reserved()
	if err != nil {
		return err.Error()
	}
	open, err := d.Leaked()
	if err != nil {
		return err.Error()
	}
	memory := d.batchMemory()
	switch {
	case s.Batches.Waiting != 0:
		return fmt.Sprintf("%d opens wait", s.Batches.Waiting)
	case s.Batches.Making != 0:
		return fmt.Sprintf("%d batches are being made", s.Batches.Making)
	case s.Memory.Used > s.Memory.Limit:
		return fmt.Sprintf("of %d bytes, %d are used", s.Memory.Limit, s.Memory.Used)
	case len(open) > 0:
		return fmt.Sprintf("the daemon has open: %v", open)
	case d.leases() > 0:
		return "the daemon holds leases"
	case reserved["batch"] != s.Memory.Batches, reserved["cache"] != s.Memory.Cache,
		reserved["input"]+reserved["scratch"] != s.Memory.Scratch: // what is charged for longer was forgotten
		return fmt.Sprintf("buffers hold %v, and %+v is charged", reserved, s.Memory)
	case memory > s.Memory.Batches:
		return fmt.Sprintf("batches take %d bytes, and %d are accounted for", memory, s.Memory.Batches)
	}
	return ""
}

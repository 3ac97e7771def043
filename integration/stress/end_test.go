package stress

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

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
	if n := strings.Count(stacks, "\ngoroutine "); n == 0 || n > most(r.Settings) {
		r.find("the daemon has %d goroutines", n)
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

// most is the maximum number of goroutines of an idle daemon: its workers, readers of the
// kernel's requests, and a few watchers.
func most(s settings) int { return s.Workers + s.BatchWorkers + 64 }

// String makes settings readable in a finding.
func (s settings) String() string {
	return fmt.Sprint(s.flags(), " faulty storage: ", s.FaultyFS, " stuck log: ", s.StuckLog)
}

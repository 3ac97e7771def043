package stress

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// tearDown ends the mount in one of the ways there are, and looks for what the daemon
// leaves.
func (r *round) tearDown() {
	if r.daemon.running() && !r.failed() {
		r.returned()
	}
	if r.daemon.running() {
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
		if err := r.storage.end(); err != nil {
			r.find("the storage: %v", err)
		}
	}
	if left, err := mountsBelow(r.dir); err != nil || len(left) > 0 {
		r.find("mounts are left: %v %v", left, err)
		for _, path := range left {
			_ = unix.Unmount(path, unix.MNT_DETACH)
		}
	}
}

// finish ends the daemon by a command or a signal; or by one that shows its goroutines.
func (r *round) finish() {
	how := pick(r.random, "umount", "SIGTERM", "SIGINT", "SIGQUIT")
	r.note("the end, by %s", how)
	switch how {
	case "SIGTERM":
		r.daemon.signal(syscall.SIGTERM)
	case "SIGINT":
		r.daemon.signal(syscall.SIGINT)
	case "SIGQUIT":
		if !r.settings.StuckLog && !r.failed() {
			r.quit()
			return
		}
		fallthrough
	case "umount":
		if err := unmount(r.brief.Mount); err != nil {
			r.find("at the end: %v", err)
			_ = unmount(r.brief.Mount, "--lazy")
		}
	}
	r.expectEnd(r.daemon)
	if err := r.daemon.complaints(); err != nil {
		r.find("%v", err)
	}
}

// quit has the daemon show its goroutines, none of which may be an open any more, and clears
// the mount that it leaves.
func (r *round) quit() {
	if err := r.daemon.complaints(); err != nil {
		r.find("%v", err)
	}
	before := len(r.daemon.logged())
	r.daemon.dump()
	stacks := r.daemon.logged()[before:]
	if n := strings.Count(stacks, "\ngoroutine "); n == 0 || n > most(r.settings) {
		r.find("the daemon has %d goroutines", n)
	}
	for _, name := range []string{"engine.(*Engine).Open(", "engine.(*Engine).await(", "engine.(*Engine).Small("} {
		if strings.Contains(stacks, name) {
			r.find("nobody reads, and the daemon is in %s", name)
		}
	}
	if err := unmount(r.brief.Mount); err != nil {
		r.find("at the end: %v", err)
	}
}

// most is how many goroutines a daemon may have that does nothing: its workers, what reads
// the kernel's requests, and a few that watch.
func most(s settings) int { return s.Workers + s.BatchWorkers + 64 }

// String makes settings readable in a finding.
func (s settings) String() string {
	return fmt.Sprint(s.flags(), " faulty storage: ", s.FaultyFS, " stuck log: ", s.StuckLog)
}

package stress

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

// An event disturbs a mount, its dataset or its readers. When it returns, the disturbance is over;
// only damage to files may last.
type event struct {
	name   string
	weight int
	do     func(*round)
}

var roundEvents []event

func init() {
	roundEvents = []event{
		{"damage a file", 8, (*round).damage},
		{"restore a file", 8, func(r *round) { r.restore(r.random.IntN(maxVictims)) }},
		{"storage fails", 4, (*round).storageFails},
		{"storage stalls", 3, (*round).storageStalls},
		{"few descriptors", 3, (*round).fewDescriptors},
		{"little address space", 1, (*round).littleSpace},
		{"daemon suspended", 3, (*round).suspendDaemon},
		{"client suspended", 3, (*round).suspendClient},
		{"client killed", 5, (*round).killClient},
		{"unmount in use", 2, (*round).unmountInUse},
		{"detach", 1, (*round).detach},
		{"daemon killed", 1, (*round).killDaemon},
		{"a container starts", 1, (*round).startContainer},
		{"ask for figures", 3, (*round).ask},
	}
}

// disturb triggers events until the given time, or until there is a finding.
func (r *round) disturb(until time.Time) {
	sum := 0
	for _, e := range roundEvents {
		sum += e.weight
	}
	for time.Now().Before(until) && !r.failed() {
		r.rest(300)
		n := r.random.IntN(sum)
		for _, e := range roundEvents {
			if n -= e.weight; n < 0 {
				if !slices.Contains(r.brief.Not, e.name) {
					r.note("%s", e.name)
					r.report.events++
					e.do(r)
				}
				break
			}
		}
		r.revive()
		if !r.daemon.Running() && !r.failed() {
			r.find("the daemon has ended: %v", r.daemon.Err)
		}
	}
}

// rest sleeps for up to most milliseconds.
func (r *round) rest(most int) {
	time.Sleep(time.Duration(r.random.IntN(most*1000)) * time.Microsecond)
}

func (r *round) damage() {
	v := r.random.IntN(maxVictims)
	if v >= len(r.oracle.Victims) || r.damaged[v] {
		return
	}
	r.damaged[v] = true
	r.weather.begin(damage0 + condition(v))
	how, err := r.pictures.spoil(r.oracle.Victims[v], r.random)
	if err != nil {
		r.find("damage: %v", err)
	}
	r.note("  %s: %s", r.oracle.Victims[v], how)
}

func (r *round) restore(v int) {
	if !r.damaged[v] {
		return
	}
	if err := r.pictures.restore(r.oracle.Victims[v]); err != nil {
		r.find("restore: %v", err)
	}
	r.damaged[v] = false
	r.weather.end(damage0 + condition(v))
}

// machineErrors are storage errors that are no fault of a file.
var machineErrors = []unix.Errno{unix.EIO, unix.ESTALE, unix.ENOMEM, unix.ETIMEDOUT, unix.EMFILE, unix.ENFILE, unix.EAGAIN}

func (r *round) storageFails() {
	errno := machineErrors[r.random.IntN(len(machineErrors))]
	r.storm(fmt.Sprintf("fail * %d %d", int(errno), pick(r.random, 3, 30, 100)), 500)
}

func (r *round) storageStalls() { r.storm("stall *", 1500) }

// storm has the storage fail or stall for a while.
func (r *round) storm(order string, most int) {
	if r.storage == nil {
		return
	}
	r.note("  %s", order)
	r.weather.begin(stormy)
	err := r.storage.Order(order)
	r.rest(most)
	if err == nil {
		err = r.storage.Order("heal")
	}
	if err != nil {
		r.find("%v", err)
	}
	r.weather.end(stormy)
}

// fewDescriptors sets the daemon's descriptor limit just above the number it has open.
func (r *round) fewDescriptors() {
	pid := r.daemon.PID()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return
	}
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		return
	}
	few := unix.Rlimit{Cur: uint64(max(3, len(entries)+r.random.IntN(8)-3)), Max: old.Max}
	r.note("  %d descriptors, and a limit of %d", len(entries), few.Cur)
	r.weather.begin(shortage)
	_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &few, nil)
	r.rest(500)
	_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil)
	r.weather.end(shortage)
}

// littleSpace sets the daemon's address space limit just above what it has mapped. Go's
// runtime cannot do without memory and threads: if it ends the daemon, that is no finding.
// Where nothing reads the log, the runtime would wait forever to say so.
func (r *round) littleSpace() {
	d := r.daemon
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.PID()))
	if err != nil || testkit.RaceDetector() || r.settings.StuckLog {
		return
	}
	var pages uint64
	_, _ = fmt.Sscan(string(text), &pages)
	var old unix.Rlimit
	if err := unix.Prlimit(d.PID(), unix.RLIMIT_AS, nil, &old); err != nil {
		return
	}
	little := unix.Rlimit{Cur: pages*uint64(os.Getpagesize()) + r.random.Uint64N(4<<20), Max: old.Max}
	for _, c := range []condition{shortage, adrift} {
		r.weather.begin(c)
		defer r.weather.end(c)
	}
	r.starved = d
	_ = unix.Prlimit(d.PID(), unix.RLIMIT_AS, &little, nil)
	r.rest(300)
	_ = unix.Prlimit(d.PID(), unix.RLIMIT_AS, &old, nil)
	r.rest(50)
	if d.Running() && !runtimeStarved(d.Logged()) {
		return
	}
	if err := d.Wait(); err != nil { // Go's runtime prints all goroutines first
		r.find("with little address space: %v", err)
		return
	}
	r.note("  the daemon has ended: %v", d.Err)
	r.mu.Lock()
	r.killed = monotonic()
	r.mu.Unlock()
	if !runtimeStarved(d.Logged()) {
		r.find("with little address space, the daemon has ended: %v\n%s", d.Err, tail(d.Logged(), 30))
		return
	}
	if err := unmount(r.brief.Mount); err != nil {
		r.find("%v", err)
	}
	r.remount()
}

// runtimeStarved reports whether Go's runtime failed for lack of memory or threads.
func runtimeStarved(log string) bool {
	for _, word := range []string{"runtime: out of memory", "runtime: cannot allocate memory", "pthread_create failed", "failed to create new OS thread", "out of memory (stackalloc)", "cannot allocate heap metadata", "failed to reserve"} {
		if strings.Contains(log, word) {
			return true
		}
	}
	return false
}

func (r *round) suspendDaemon() {
	r.daemon.Signal(syscall.SIGSTOP)
	r.rest(500)
	r.daemon.Signal(syscall.SIGCONT)
}

func (r *round) suspendClient() {
	c := r.clients[r.random.IntN(len(r.clients))]
	_ = c.cmd.Process.Signal(syscall.SIGSTOP)
	r.rest(500)
	_ = c.cmd.Process.Signal(syscall.SIGCONT)
}

func (r *round) killClient() {
	_ = r.clients[r.random.IntN(len(r.clients))].cmd.Process.Kill()
}

// unmountInUse tries to unmount a mount that is probably in use. If it is, it must stay.
func (r *round) unmountInUse() {
	r.weather.begin(adrift)
	defer r.weather.end(adrift)
	err := unmount(r.brief.Mount)
	if err == nil {
		r.note("  it was not in use")
		r.expectEnd(r.daemon)
		r.remount()
	} else if !strings.Contains(err.Error(), "in use") {
		r.find("%v", err)
	}
}

// detach detaches the mount while it is being read, and mounts again at once.
func (r *round) detach() {
	r.weather.begin(adrift)
	defer r.weather.end(adrift)
	if err := unmount(r.brief.Mount, "--lazy"); err != nil {
		r.find("%v", err)
		return
	}
	r.former = append(r.former, r.daemon)
	r.remount()
}

// killDaemon leaves a dead mount, which is cleared.
func (r *round) killDaemon() {
	r.weather.begin(adrift)
	defer r.weather.end(adrift)
	r.mu.Lock()
	r.killed = monotonic()
	r.mu.Unlock()
	r.daemon.Signal(syscall.SIGKILL)
	<-r.daemon.Exited
	r.rest(100)
	if err := unmount(r.brief.Mount); err != nil {
		r.find("%v", err)
		return
	}
	r.remount()
}

// startContainer makes a mount namespace that, like a container, keeps the current mounts
// until the round is over.
func (r *round) startContainer() {
	cmd := exec.Command("sleep", "3600")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		r.find("%v", err)
		return
	}
	r.guests = append(r.guests, cmd)
}

// endContainers ends the containers: a daemon lives as long as one of them has its mount.
func (r *round) endContainers() {
	for _, cmd := range r.guests {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	r.guests = nil
}

// remount mounts again, with all files as the oracle knows them: a mount uses the files it
// finds at the start.
func (r *round) remount() {
	for v := range r.damaged {
		r.restore(v)
	}
	if r.failed() {
		return
	}
	if err := r.mount(); err != nil {
		r.find("again: %v", err)
	}
}

// expectEnd waits for a daemon whose mount is gone.
func (r *round) expectEnd(d *daemon) {
	r.endContainers()
	if err := d.Wait(); err != nil {
		r.find("%v", err)
	} else if d.Err != nil {
		r.find("the daemon ended with %v", d.Err)
	}
}

// ask reads the daemon's statistics.
func (r *round) ask() {
	s, err := r.daemon.stats()
	if err != nil {
		r.find("%v", err)
		return
	}
	r.checkFigures(s)
}

// checkFigures checks that a daemon keeps to its limit.
func (r *round) checkFigures(s statistics) {
	if s.Memory.Used > s.Memory.Limit || s.Memory.Peak > s.Memory.Limit {
		r.find("of %d bytes, %d are used, and %d were", s.Memory.Limit, s.Memory.Used, s.Memory.Peak)
	}
}

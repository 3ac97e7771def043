package stress

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Events disturb a mount, its dataset or its readers. When one returns, the disturbance is over;
// only damage to files may last. An error is a finding.
var roundEvents = []deed[*round]{
	{"damage a file", 8, (*round).damage},
	{"restore a file", 8, func(r *round) error { return r.restore(r.random.IntN(maxVictims)) }},
	{"storage fails", 4, (*round).storageFails},
	{"storage stalls", 3, (*round).storageStalls},
	{"few descriptors", 3, (*round).fewDescriptors},
	{"daemon suspended", 3, (*round).suspendDaemon},
	{"client suspended", 3, (*round).suspendClient},
	{"client killed", 5, (*round).killClient},
	{"unmount in use", 2, (*round).unmountInUse},
	{"detach", 1, (*round).detach},
	{"daemon killed", 1, (*round).killDaemon},
	{"a container starts", 1, (*round).startContainer},
	{"ask for figures", 3, (*round).ask},
}

// disturb triggers events until the given time, or until there is a finding.
func (r *round) disturb(until time.Time) {
	for time.Now().Before(until) && !r.failed() {
		r.rest(300)
		e := choose(r.random, roundEvents)
		r.note("%s", e.name)
		r.report[events]++
		if err := e.do(r); err != nil {
			r.find("%s: %v", e.name, err)
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

func (r *round) damage() error {
	v := r.random.IntN(maxVictims)
	if v >= len(r.oracle.Victims) || r.damaged[v] {
		return nil
	}
	r.damaged[v] = true
	r.weather.begin(damage0 + condition(v))
	how, err := r.pictures.spoil(r.oracle.Victims[v], r.random)
	r.note("  %s: %s", r.oracle.Victims[v], how)
	return err
}

func (r *round) restore(v int) error {
	if !r.damaged[v] {
		return nil
	}
	err := r.pictures.restore(r.oracle.Victims[v])
	r.damaged[v] = false
	r.weather.end(damage0 + condition(v))
	return err
}

func (r *round) restoreAll() (err error) {
	for v := range r.damaged {
		err = errors.Join(err, r.restore(v))
	}
	return err
}

// machineErrors are storage errors that are no fault of a file.
var machineErrors = []unix.Errno{unix.EIO, unix.ESTALE, unix.ENOMEM, unix.ETIMEDOUT, unix.EMFILE, unix.ENFILE, unix.EAGAIN}

func (r *round) storageFails() error {
	return r.storm(fmt.Sprintf("fail * %d %d", int(pick(r.random, machineErrors...)), pick(r.random, 3, 30, 100)), 500)
}

func (r *round) storageStalls() error { return r.storm("stall *", 1500) }

// storm has the storage fail or stall for a while.
func (r *round) storm(order string, most int) error {
	if r.storage == nil {
		return nil
	}
	r.note("  %s", order)
	r.weather.begin(stormy)
	defer r.weather.end(stormy)
	err := r.storage.Order(order)
	r.rest(most)
	return errors.Join(err, r.storage.Order("heal"))
}

// fewDescriptors sets the daemon's descriptor limit just above the number it has open.
func (r *round) fewDescriptors() error {
	pid := r.daemon.PID()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil
	}
	few := uint64(max(3, len(entries)+r.random.IntN(8)-3))
	r.note("  %d descriptors, and a limit of %d", len(entries), few)
	r.weather.begin(shortage)
	defer r.weather.end(shortage)
	var old unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old) == nil {
		_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: few, Max: old.Max}, nil)
		r.rest(500)
		_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil)
	}
	return nil
}

func (r *round) suspendDaemon() error { return r.suspend(r.daemon.Cmd.Process) }

func (r *round) suspendClient() error { return r.suspend(r.anyClient()) }

// suspend stops a process for a while.
func (r *round) suspend(p *os.Process) error {
	_ = p.Signal(syscall.SIGSTOP)
	r.rest(500)
	_ = p.Signal(syscall.SIGCONT)
	return nil
}

func (r *round) anyClient() *os.Process { return pick(r.random, r.clients...).cmd.Process }

func (r *round) killClient() error {
	_ = r.anyClient().Kill()
	return nil
}

// unmountInUse tries to unmount a mount that is probably in use. If it is, it must stay.
func (r *round) unmountInUse() error {
	r.weather.begin(adrift)
	defer r.weather.end(adrift)
	err := unmount(r.Mount)
	if err == nil {
		r.note("  it was not in use")
		r.expectEnd(r.daemon)
		return r.remount()
	}
	if strings.Contains(err.Error(), "in use") {
		return nil
	}
	return err
}

// detach detaches the mount while it is being read, and mounts again at once.
func (r *round) detach() error {
	r.weather.begin(adrift)
	defer r.weather.end(adrift)
	if err := unmount(r.Mount, "--lazy"); err != nil {
		return err
	}
	r.former = append(r.former, r.daemon)
	return r.remount()
}

// killDaemon leaves a dead mount, which is cleared.
func (r *round) killDaemon() error {
	r.weather.begin(adrift)
	defer r.weather.end(adrift)
	r.mu.Lock()
	r.killed = monotonic()
	r.mu.Unlock()
	r.daemon.Signal(syscall.SIGKILL)
	<-r.daemon.Exited
	r.rest(100)
	if err := unmount(r.Mount); err != nil {
		return err
	}
	return r.remount()
}

// startContainer makes a mount namespace that, like a container, keeps the current mounts
// until the round is over.
func (r *round) startContainer() error {
	cmd := exec.Command("sleep", "3600")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Start()
	if err == nil {
		r.guests = append(r.guests, cmd)
	}
	return err
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
func (r *round) remount() error {
	if err := r.restoreAll(); err != nil || r.failed() {
		return err
	}
	return r.mount()
}

// expectEnd waits for a daemon whose mount is gone.
func (r *round) expectEnd(d *daemon) {
	r.endContainers()
	if err := d.ended(); err != nil {
		r.find("%v", err)
	}
}

// ask reads the daemon's statistics: it must keep to its limit.
func (r *round) ask() error {
	s, err := r.daemon.stats()
	if err == nil && (s.Memory.Used > s.Memory.Limit || s.Memory.Peak > s.Memory.Limit) {
		err = fmt.Errorf("of %d bytes, %d are used, and %d were", s.Memory.Limit, s.Memory.Used, s.Memory.Peak)
	}
	return err
}

package integration

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
)

// partNoLeases becomes another program, for which the kernel grants no leases, as with
// fs.leases-enable=0: PROGRAM ARGUMENTS...
func partNoLeases(args []string) error {
	const number, command = 0, 24 // offsets in struct seccomp_data, on little-endian machines
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	unless := func(value uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: skip, K: value}
	}
	answer := func(value uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
	}
	filter := []unix.SockFilter{
		load(number), unless(unix.SYS_FCNTL, 3), load(command), unless(unix.F_SETLEASE, 1),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)), answer(unix.SECCOMP_RET_ALLOW),
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // the filter applies to this thread, and then to the program
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	runtime.KeepAlive(filter)
	if err != nil {
		return err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return unix.Exec(path, args, unix.Environ())
}

// TestWithoutLeases: if the kernel grants no leases, batches have the same bytes, and the log, the
// statistics and doctor say why they are slower.
func TestWithoutLeases(t *testing.T) {
	const side = 64
	skipWithoutPassthrough(t)
	user := root(t)
	user.run = []string{suite.self, "part-no-leases"}
	m := mountAs(t, user, tiles(t, 4*tileBatch, side), "--batch-size", "4")
	for batch := range 4 {
		m.expectTiles(t, 0, batch, side, layout.NHWCForm)
	}
	const reason = "file leases are off: sysctl fs.leases-enable=1 turns them on"
	if says := m.stats(t).Memory.ReuseError; !strings.HasPrefix(says, reason) {
		t.Errorf("stats.json says %q", says)
	}
	if out := m.run(t, suite.binary, "stats", m.dir); !strings.Contains(out, "batch memory is not reused: "+reason) {
		t.Errorf("stats does not say it:\n%s", out)
	}
	if log := m.logged(); strings.Count(log, "batch memory is freed after each batch instead of reused") != 1 || !strings.Contains(log, reason) {
		t.Errorf("the log does not say it once:\n%s", log)
	}
	out, err := output(user.daemon([]string{suite.binary, "doctor"}))
	if err != nil || !strings.Contains(out, reason) || !strings.Contains(out, "memory reuse: every batch needs newly cleared memory") {
		t.Errorf("doctor does not say it (%v):\n%s", err, out)
	}
}

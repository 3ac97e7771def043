package main

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMemoryOf: the memory of a process and of those that it has started is counted once where they
// share it, and so are files in /dev/shm that several have open.
func TestMemoryOf(t *testing.T) {
	const size = 64 << 20
	file, err := os.CreateTemp("/dev/shm", "batchfs-bench-")
	if err != nil {
		t.Skip("SKIPPED: no /dev/shm")
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fallocate(int(file.Fd()), 0, 0, size); err != nil {
		t.Fatal(err)
	}
	// Each of three processes holds the file; all share what they inherit.
	cmd := exec.Command("/usr/bin/python3", "-c", `
import os, sys
held = bytearray(os.urandom(1 << 20)) * 64
for _ in range(2):
    if os.fork() == 0:
        held[0] = 1
        print("ready", flush=True)
        sys.stdin.read()
        os._exit(0)
print("ready", flush=True)
sys.stdin.read()`)
	cmd.ExtraFiles = []*os.File{file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("SKIPPED: no Python")
	}
	defer func() { _ = cmd.Wait() }()
	defer in.Close()
	ready := bufio.NewScanner(out)
	for range 3 {
		if !ready.Scan() {
			t.Fatal("it ended")
		}
	}
	pids := group(cmd.Process.Pid)
	h, err := memoryOf(append(pids, 1<<22+1)) // which is no process
	if err != nil || len(pids) != 3 || h.shm != size || h.pss < 64<<20 || h.pss > 100<<20 {
		t.Errorf("%d processes hold %+v, %v", len(pids), h, err)
	}
}

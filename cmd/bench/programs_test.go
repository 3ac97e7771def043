package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// shell returns a bench whose consumers are shell scripts, and the name of one.
func shell(t *testing.T, script string) (*bench, string) {
	b := &bench{stage: stage{ctx: t.Context(), options: options{python: "/bin/sh", peers: t.TempDir(), work: t.TempDir()}}}
	write(filepath.Join(b.peers, "script"), []byte(script))
	return b, "script"
}

func TestConsumerSkipsWhatItHasMadeAhead(t *testing.T) {
	b, script := shell(t, `
		echo '{"what": "a shell", "ahead": 6}'
		while read skip count pause; do
			echo "{\"images\": $((skip * 100 + count)), \"seconds\": $pause}"
		done`)
	err := b.within(func() {
		c := b.consume(script)
		if c.what != "a shell" {
			t.Errorf("it calls itself %q", c.what)
		}
		c.pause = 2 * time.Second
		for range 2 { // it was stopped in between
			f := c.turn(40)
			if want := (600. + 40) / 2; f[rate] != want || f[pss] == 0 {
				t.Errorf("%v images/s, want %v; %v", f[rate], want, f)
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestConsumerSaysWhyItCannotRun(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"told":       {`echo '{"error": "no module"}'; exit 1`, "no module"},
		"died":       {"echo first >&2; echo second >&2; exit 3", "second"},
		"in silence": {"exit 3", "without an answer"},
		"nonsense":   {"echo hello", "hello"},
		"later":      {`echo '{"what": "a shell", "ahead": 1}'; read line; echo gone >&2`, "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			b, script := shell(t, c.script)
			err := b.within(func() { b.consume(script).turn(1) })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestBestOf: of several numbers of workers, the fastest one stays; those that fail are left out.
func TestBestOf(t *testing.T) {
	b, script := shell(t, `
		[ $2 != 3 ] || exit 1
		echo "{\"what\": \"$2 workers, batches of $4\", \"ahead\": 1}"
		while read skip count pause; do echo "{\"images\": $(($2 * (5 - $2))), \"seconds\": 1}"; done`)
	for want, workers := range map[string][]int{"2 workers, batches of 64": {1, 2, 3, 4}, "it printed nothing": {3}} {
		p := &peer{script: script, workers: workers}
		err := b.within(func() { b.bestOf(p, 1) })
		if got := fmt.Sprint(p.what, err); !strings.Contains(got, want) {
			t.Errorf("%v: %s, not %s", workers, got, want)
		}
	}
}

// TestMemoryOf: the memory of a process and of those that it has started is counted once where they
// share it, and so are files in /dev/shm that several have open.
func TestMemoryOf(t *testing.T) {
	const size = 64 << 20
	file, err := os.CreateTemp("/dev/shm", "batchfs-bench-")
	if err != nil {
		t.Skip("SKIPPED: no /dev/shm")
	}
	defer file.Close()
	check(os.Remove(file.Name()))
	check(unix.Fallocate(int(file.Fd()), 0, 0, size))
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
	in, ready := must(cmd.StdinPipe()), bufio.NewScanner(must(cmd.StdoutPipe()))
	if err := cmd.Start(); err != nil {
		t.Skip("SKIPPED: no Python")
	}
	defer func() { _ = cmd.Wait() }()
	defer in.Close()
	for range 3 {
		if !ready.Scan() {
			t.Fatal("it ended")
		}
	}
	pids := group(cmd.Process.Pid)
	h := memoryOf(append(pids, 1<<22+1)) // which is no process
	if len(pids) != 3 || h.shm != size || h.pss < 64<<20 || h.pss > 100<<20 {
		t.Errorf("%d processes hold %+v", len(pids), h)
	}
}

// TestDiskOf: limits apply to disks; a path that is on no disk cannot be limited.
func TestDiskOf(t *testing.T) {
	if disk, err := diskOf("/proc"); err == nil {
		t.Errorf("/proc is on disk %s", disk)
	}
	if _, err := diskOf(filepath.Join(t.TempDir(), "nothing")); err == nil {
		t.Error("nothing is on a disk")
	}
}

package machine

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

const mib = 1 << 20

func memoryOf(files map[string]string) *Memory {
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return NewMemory(root)
}

func TestBounds(t *testing.T) {
	const total = "MemTotal:       16384 kB\nMemFree:         1024 kB\nMemAvailable: 8192 kB\n"
	machine := Bound{Name: "the machine", Total: 16 << 20, Left: 8 << 20}
	for _, test := range []struct {
		name  string
		files map[string]string
		want  []Bound
	}{
		{"no groups", map[string]string{"proc/meminfo": total}, []Bound{machine}},
		{"version 2", map[string]string{
			"proc/meminfo": total, "proc/self/cgroup": "0::/user.slice/job\n",
			"sys/fs/cgroup/user.slice/job/memory.max": "4194304\n", "sys/fs/cgroup/user.slice/memory.max": "max\n",
			"sys/fs/cgroup/user.slice/job/memory.current": "3145728\n",
			"sys/fs/cgroup/user.slice/job/memory.stat":    "anon 5\nfile 2097152\ninactive_file 524288\nactive_file 524288\nshmem 1048576\n",
		}, []Bound{{"the control group /user.slice/job", 4 << 20, 2 << 20, "/user.slice/job"}, machine}},
		{"version 2, nested", map[string]string{
			"proc/meminfo": total, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "8388608\n", "sys/fs/cgroup/a/b/memory.current": "1\n",
			"sys/fs/cgroup/a/memory.max": "2097152\n", "sys/fs/cgroup/a/memory.current": "3000000\n",
		}, []Bound{{"the control group /a/b", 8 << 20, 8<<20 - 1, "/a/b"}, {"the control group /a", 2 << 20, 0, "/a"}, machine}},
		{"memory.high comes before memory.max", map[string]string{
			"proc/meminfo": total, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "8388608\n", "sys/fs/cgroup/a/memory.high": "4194304\n",
		}, []Bound{{"the control group /a", 4 << 20, 4 << 20, "/a"}, machine}},
		{"version 2 in a container with the host's path", map[string]string{
			"proc/meminfo": total, "proc/self/cgroup": "0::/../../docker/abc\n", "sys/fs/cgroup/memory.max": "1048576\n",
		}, []Bound{{"the control group /", 1 << 20, 1 << 20, "/"}, machine}},
		{"version 2 without a limit", map[string]string{
			"proc/meminfo": total, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n",
		}, []Bound{machine}},
		{"version 1", map[string]string{
			"proc/meminfo": total, "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n1:name=systemd:/x\n",
			"sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "3145728\n",
			"sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes": "2097152\n",
			"sys/fs/cgroup/memory/docker/abc/memory.stat":           "inactive_file 9\ntotal_inactive_file 524288\ntotal_active_file 524288\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":            "9223372036854771712\n",
		}, []Bound{{"the control group /docker/abc", 3 << 20, 2 << 20, "/docker/abc"}, machine}},
		{"another controller's limit is not ours", map[string]string{
			"proc/meminfo": total, "proc/self/cgroup": "4:cpuset:/x\n", "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1024\n",
		}, []Bound{machine}},
		{"nothing can be read", nil, []Bound{{"the machine", guess, guess, ""}}},
		{"nonsense", map[string]string{"proc/meminfo": "MemTotal: lots kB\n", "proc/self/cgroup": "::::\n0\n"}, []Bound{{"the machine", guess, guess, ""}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := memoryOf(test.files)
			got := h.bounds()
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("bounds %+v, want %+v", got, test.want)
			}
			lowest := h.Lowest()
			for _, b := range test.want {
				if b.Total < lowest.Total {
					t.Errorf("%+v is lower than %+v", b, lowest)
				}
			}
		})
	}
}

// inGroup is a process in a control group of 400 MiB, of which used bytes are used.
func inGroup(used int64) map[string]string {
	return map[string]string{
		"proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 12582912 kB\n", "proc/self/status": status(100, 100, 1, "batchfs"),
		"proc/self/cgroup": "0::/pod/job\n", "sys/fs/cgroup/pod/memory.max": fmt.Sprint(400 * mib), "sys/fs/cgroup/pod/memory.current": fmt.Sprint(used),
	}
}

// status is what the kernel says about a thread.
func status(pid, process, parent int, name string) string {
	return fmt.Sprintf("Name:\t%s\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t%d\nNgid:\t0\nPid:\t%d\nPPid:\t%d\n", name, process, pid, parent)
}

func addProcess(files map[string]string, pid, parent int, name, group string, args ...string) {
	dir := fmt.Sprintf("proc/%d/", pid)
	files[dir+"status"] = status(pid, pid, parent, name)
	files[dir+"cmdline"] = strings.Join(args, "\x00") + "\x00"
	files[dir+"cgroup"] = "0::" + group + "\n"
}

func TestMounts(t *testing.T) {
	files := inGroup(0)
	addProcess(files, 100, 1, "batchfs", "/pod/job", "batchfs", "mount", "a", "b") // this one
	addProcess(files, 1, 0, "init", "/", "init")
	count := func(pod, machine int) {
		t.Helper()
		h := memoryOf(files)
		if got := h.mounts(h.bounds()); fmt.Sprint(got) != fmt.Sprint([]int{pod, machine}) {
			t.Errorf("%v mounts, want %d in the group and %d in all", got, pod, machine)
		}
	}
	count(1, 1)
	addProcess(files, 101, 1, "batchfs", "/pod/other", "/usr/bin/batchfs", "mount", "--shards", "4")
	count(2, 2)
	addProcess(files, 102, 1, "batchfs", "/elsewhere", "mount.batchfs", "a", "b")
	count(2, 3)
	addProcess(files, 103, 1, "batchfs", "/pod", "batchfs", "stats", "mnt")
	addProcess(files, 104, 1, "python (mount)", "/pod", "python", "mount")
	addProcess(files, 105, 1, "batchfs", "/podium", "batchfs", "umount", "mnt")
	count(2, 3)
	// A mount that goes into the background, and the command that waits for it.
	addProcess(files, 106, 1, "batchfs", "/pod", "batchfs", "mount", "--daemon")
	addProcess(files, 107, 106, "batchfs", "/pod", "batchfs", "mount", "--daemon")
	count(3, 4)
	// A thread of the first one, and that one itself.
	addProcess(files, 108, 1, "batchfs", "/pod/other", "/usr/bin/batchfs", "mount", "--shards", "4")
	files["proc/108/status"] = status(108, 101, 1, "batchfs")
	count(3, 4)
	files["proc/101/cmdline"] = "" // a zombie
	count(2, 3)
	files["proc/self/status"] = status(100, 100, 106, "batchfs") // that command is our parent
	count(2, 3)
}

func TestShare(t *testing.T) {
	files := inGroup(0)
	check := func(want int64, mounts int) {
		t.Helper()
		if s := memoryOf(files).Share(); s.Limit != want || s.Mounts != mounts {
			t.Errorf("%d bytes, %d mounts, want %d and %d", s.Limit, s.Mounts, want, mounts)
		}
	}
	check(200*mib, 1)
	addProcess(files, 101, 1, "batchfs", "/pod", "batchfs", "mount")
	check(100*mib, 2)
	addProcess(files, 102, 1, "batchfs", "/pod/x", "batchfs", "mount")
	third := int64(200*mib) / 3
	check(third, 3)
	maps.Copy(files, map[string]string{"sys/fs/cgroup/pod/memory.current": fmt.Sprint(300 * mib)})
	check(50*mib, 3) // half of what is left
	maps.Copy(files, map[string]string{"sys/fs/cgroup/pod/memory.current": fmt.Sprint(500 * mib)})
	check(1, 3)
}

// fakeTenant records the limits it is given.
type fakeTenant struct {
	used  int64
	limit int64
	told  int
}

func (f *fakeTenant) MemoryUsed() int64 { return f.used }
func (f *fakeTenant) SetMemoryLimit(n int64) {
	f.limit = n
	f.told++
}

func TestWatch(t *testing.T) {
	files := inGroup(100 * mib)
	var log bytes.Buffer
	tenant := &fakeTenant{used: 24 * mib}
	w := &Watch{Memory: memoryOf(files), Used: tenant.MemoryUsed, SetLimit: tenant.SetMemoryLimit, Limit: 200 * mib, Shared: true, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	step := func(used, group, want int64, said string) {
		t.Helper()
		files["sys/fs/cgroup/pod/memory.current"] = fmt.Sprint(group)
		w.Memory = memoryOf(files)
		tenant.used = used
		log.Reset()
		w.look()
		if tenant.limit != want {
			t.Errorf("the limit is %d, want %d", tenant.limit, want)
		}
		if text := log.String(); strings.Count(text, "\n") > 1 || !strings.Contains(text, said) || (said == "") != (text == "") {
			t.Errorf("the log says %q, want %q", text, said)
		}
	}
	const reserve = 25 * mib
	step(24*mib, 100*mib, 0, "") // unrestricted: nothing to do
	step(150*mib, 250*mib, 0, "")
	step(150*mib, 350*mib, 150*mib+50*mib-reserve, "gives way")
	step(150*mib, 395*mib, 150*mib+5*mib-reserve, "") // already logged
	step(130*mib, 375*mib, 130*mib, "")               // it gave way and stays there
	step(120*mib, 360*mib, 130*mib, "")               // too small a change
	step(130*mib, 300*mib, 200*mib, "what it was before")
	for pid := 101; pid < 104; pid++ {
		addProcess(files, pid, 1, "batchfs", "/pod", "batchfs", "mount")
	}
	w.Memory = memoryOf(files)
	for range recountsAt { // mounts are not recounted each time
		w.look()
	}
	if text := log.String(); strings.Count(text, "shares the memory") != 1 {
		t.Errorf("the log says %q", text)
	}
	step(30*mib, 120*mib, 50*mib, "")
	if w.state.mounts != 4 {
		t.Errorf("%+v", w.state)
	}
	for pid := 101; pid < 104; pid++ {
		delete(files, fmt.Sprintf("proc/%d/status", pid))
	}
	for range recountsAt {
		w.Memory = memoryOf(files)
		w.look()
	}
	if tenant.limit != 200*mib || w.state != (state{}) {
		t.Errorf("a limit of %d, %+v when the others had gone", tenant.limit, w.state)
	}
	// A limit of its own is not divided, but the memory left is.
	w.Shared = false
	addProcess(files, 101, 1, "batchfs", "/pod", "batchfs", "mount")
	w.Memory = memoryOf(files)
	for range recountsAt {
		w.look()
	}
	step(30*mib, 120*mib, 30*mib+(280*mib-reserve)/2, "")
	step(150*mib, 200*mib, 200*mib, "what it was before")
}

// TestWatchRuns: the watch checks at once and on each tick, and not after it was stopped.
func TestWatchRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenant := &fakeTenant{used: 100 * mib}
		w := &Watch{Memory: memoryOf(inGroup(390 * mib)), Used: tenant.MemoryUsed, SetLimit: tenant.SetMemoryLimit, Limit: 200 * mib, Logger: slog.New(slog.DiscardHandler)}
		stop := w.Start()
		time.Sleep(10*interval + 1)
		stop()
		stop()
		time.Sleep(interval)
		if w.looked != 11 || tenant.limit != 85*mib || tenant.told != 1 {
			t.Errorf("%+v after %d looks", tenant, w.looked)
		}
	})
}

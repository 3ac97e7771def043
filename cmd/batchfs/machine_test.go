package main

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

func machineOf(files map[string]string) machine {
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return machine{files: fs.FS(root), cpus: 4}
}

func TestMachineMemory(t *testing.T) {
	const total = "MemTotal:       16384 kB\nMemFree:         1024 kB\n"
	for _, test := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no groups", map[string]string{"proc/meminfo": total}, 16 << 20},
		{"version 2", map[string]string{
			"proc/meminfo": total, "proc/self/cgroup": "0::/user.slice/job\n",
			"sys/fs/cgroup/user.slice/job/memory.max": "4194304\n", "sys/fs/cgroup/user.slice/memory.max": "max\n",
		}, 4 << 20},
		{"version 2, the parent is smaller", map[string]string{
			"proc/meminfo": total, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "8388608\n", "sys/fs/cgroup/a/memory.max": "2097152\n",
		}, 2 << 20},
		{"version 2 in a container with the host's path", map[string]string{
			"proc/meminfo": total, "proc/self/cgroup": "0::/../../docker/abc\n", "sys/fs/cgroup/memory.max": "1048576\n",
		}, 1 << 20},
		{"version 2 without a limit", map[string]string{
			"proc/meminfo": total, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n",
		}, 16 << 20},
		{"version 1", map[string]string{
			"proc/meminfo": total, "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n1:name=systemd:/x\n",
			"sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "3145728\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":            "9223372036854771712\n",
		}, 3 << 20},
		{"version 1 without a limit", map[string]string{
			"proc/meminfo": total, "proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 16 << 20},
		{"another controller's limit is not ours", map[string]string{
			"proc/meminfo": total, "proc/self/cgroup": "4:cpuset:/x\n", "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1024\n",
		}, 16 << 20},
		{"nothing can be read", nil, 4 << 30},
		{"nonsense", map[string]string{"proc/meminfo": "MemTotal: lots kB\n", "proc/self/cgroup": "::::\n0\n"}, 4 << 30},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := machineOf(test.files)
			if got := m.memory(); got != test.want {
				t.Errorf("memory is %d, want %d", got, test.want)
			}
			if got := m.defaultMemoryLimit(); got != test.want/2 {
				t.Errorf("the default limit is %d, want half of %d", got, test.want)
			}
		})
	}
}

func TestThisMachineHasMemory(t *testing.T) {
	if m := thisMachine(); m.memory() < 1<<20 || m.cpus < 1 {
		t.Errorf("memory %d, CPUs %d", m.memory(), m.cpus)
	}
}

func TestEnvironment(t *testing.T) {
	for _, test := range []struct {
		name string
		env  map[string]string
		uid  int
		want string
	}{
		{"XDG first", map[string]string{"XDG_CACHE_HOME": "/x", "HOME": "/home/a"}, 1000, "/x/batchfs"},
		{"a relative XDG counts for nothing", map[string]string{"XDG_CACHE_HOME": "x", "HOME": "/home/a"}, 1000, "/home/a/.cache/batchfs"},
		{"HOME", map[string]string{"HOME": "/home/ann"}, 0, "/home/ann/.cache/batchfs"},
		{"root from fstab", nil, 0, "/var/cache/batchfs"},
		{"nowhere", nil, 1000, ""},
	} {
		e := readEnvironment(func(name string) string { return test.env[name] }, test.uid)
		if e.cacheDir != test.want {
			t.Errorf("%s: %q, want %q", test.name, e.cacheDir, test.want)
		}
	}
}

// TestLeases: doctor says what it costs that leases are switched off.
func TestLeases(t *testing.T) {
	off := machine{files: fstest.MapFS{"proc/sys/fs/leases-enable": {Data: []byte("0\n")}}}
	if f := off.leases(); f.OK || !strings.Contains(f.Advice, "fs.leases-enable=1") {
		t.Errorf("switched off: %+v", f)
	}
	here := thisMachine()
	if f := here.leases(); f.OK == (here.line("proc/sys/fs/leases-enable") == "0") {
		t.Errorf("here: %+v", f)
	}
}

package main

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/machine"
	"github.com/batchfs/batchfs/internal/testkit"
)

func machineOf(files map[string]string) host {
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return host{files: fs.FS(root), cpus: 4}
}

// TestDefaultMemoryLimit checks that the rules of package machine are used.
func TestDefaultMemoryLimit(t *testing.T) {
	files := map[string]string{
		"proc/meminfo": "MemTotal: 16384 kB\nMemAvailable: 16000 kB\n", "proc/self/cgroup": "0::/job\n", "proc/self/status": "Name:\tbatchfs\nTgid:\t9\nPid:\t9\n",
		"sys/fs/cgroup/job/memory.max": "4194304\n",
	}
	if got := machineOf(files).defaultMemoryLimit(); got != 2<<20 {
		t.Errorf("%d bytes, want half of the control group's 4 MiB", got)
	}
	files["proc/10/status"], files["proc/10/cgroup"] = "Name:\tbatchfs\nTgid:\t10\nPid:\t10\n", "0::/job\n"
	files["proc/10/cmdline"] = "batchfs\x00mount\x00a\x00b\x00"
	if got := machineOf(files).defaultMemoryLimit(); got != 1<<20 {
		t.Errorf("%d bytes beside another mount, want a quarter", got)
	}
}

// TestLimitsAboveWhatThereIs: every command refuses a limit above the memory of the machine or the
// control group, and names the highest possible one.
func TestLimitsAboveWhatThereIs(t *testing.T) {
	c := &console{out: io.Discard, err: io.Discard, machine: machineOf(map[string]string{
		"proc/meminfo": "MemTotal: 16384 kB\n", "proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.max": "4194304\n",
	})}
	for _, command := range []string{"mount /nowhere mnt", "profile /nowhere", "bench /nowhere", "verify /nowhere", "convert --raw-ratio 1 /nowhere out"} {
		for limit, refused := range map[string]bool{"4MiB": false, "4194305": true, "1TiB": true} {
			err := c.run(t.Context(), strings.Fields("batchfs --memory-limit "+limit+" "+command))
			want := fmt.Sprintf("--memory-limit must be at most 4MiB, which is all that the control group /job has, but is %q", limit)
			if refused != (exitStatus(err) == statusUsage) || refused != (err.Error() == want) {
				t.Errorf("%s with %s: %v", command, limit, err)
			}
		}
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
		e := readEnvironment(func(name string) (string, bool) {
			value, set := test.env[name]
			return value, set
		}, test.uid)
		if e.cacheDir != test.want {
			t.Errorf("%s: %q, want %q", test.name, e.cacheDir, test.want)
		}
	}
}

// TestVisibleGPUs: as for CUDA, an empty list means no GPU, and without a list, the first GPU is
// used.
func TestVisibleGPUs(t *testing.T) {
	for set, want := range map[bool]string{true: machine.NoGPU, false: ""} {
		e := readEnvironment(func(name string) (string, bool) { return "", set && name == "CUDA_VISIBLE_DEVICES" }, 0)
		if e.gpus != want {
			t.Errorf("set: %t: GPUs %q, want %q", set, e.gpus, want)
		}
	}
}

// TestSetKernels: BATCHFS_CPU lowers all kernels to a level, and must name one that this
// processor has.
func TestSetKernels(t *testing.T) {
	var o engine.Options
	if err := (environment{}).setKernels(&o); err != nil || o.Decoding.Kernel != decode.Fastest {
		t.Errorf("unset: %v, %s", err, o.Decoding.Kernel)
	}
	for _, name := range []string{"fast", "go", "AVX2", "libjpeg"} {
		if err := (environment{vectors: name}).setKernels(&o); err == nil || !strings.Contains(err.Error(), "BATCHFS_CPU") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if len(resample.Kernels()) == 1 {
		t.Skip("SKIPPED: this build has only Go's kernels")
	}
	testkit.Must(t, (environment{vectors: "portable"}).setKernels(&o))
	if o.Decoding.Kernel != decode.Portable {
		t.Errorf("portable: %s", o.Decoding.Kernel)
	}
}

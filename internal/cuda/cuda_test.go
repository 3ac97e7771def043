//go:build cuda && linux && cgo && (amd64 || arm64)

package cuda

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/fakecuda"
)

func TestEverythingOnce(t *testing.T) {
	configs := []fakecuda.Config{{}, {Devices: 2}}
	for seed := range int64(8) { // one stream is ahead of the other where it should wait, in some of them
		configs = append(configs, fakecuda.Config{Delay: 2 * time.Millisecond, Seed: seed + 1})
	}
	for _, c := range configs {
		r, _ := run(t, driver, c, "all")
		importer, err := strconv.Atoi(string(r.Result))
		if err != nil || r.Error != "" {
			t.Fatalf("%+v: %+v (%v)", c, r, err)
		}
		calls, alive, err := driver.Alive(importer)
		if calls == 0 || alive != (fakecuda.Alive{}) || err != nil {
			t.Errorf("%+v: the process that opened the memory: %+v of %d calls (%v)", c, alive, calls, err)
		}
	}
}

func TestThreads(t *testing.T) {
	c := fakecuda.Config{Devices: 2, Delay: time.Millisecond}
	if r, _ := run(t, driver, c, "threads"); r.Error != "" {
		t.Error(r.Error)
	}
	c.Failures = []fakecuda.Failure{{Function: "kernel", Nth: 3, Code: 700}} // one kernel fails: all threads learn of it
	if r, _ := run(t, driver, c, "threads"); r.Code != 700 || !slices.Equal(r.Is, []string{"lost"}) {
		t.Errorf("%+v", r)
	}
}

// TestNestedThreads: a Thread within another one leaves that one its context.
func TestNestedThreads(t *testing.T) {
	if r, _ := run(t, driver, fakecuda.Config{Devices: 2}, "nested"); r.Error != "" {
		t.Error(r.Error)
	}
}

func TestCopiesHappenLater(t *testing.T) {
	if r, _ := run(t, driver, fakecuda.Config{}, "later"); r.Error != "" {
		t.Error(r.Error)
	}
}

func TestLimits(t *testing.T) {
	if r, _ := run(t, driver, fakecuda.Config{}, "limits"); r.Error != "" {
		t.Error(r.Error)
	}
}

func TestKernelFaults(t *testing.T) {
	if r, _ := run(t, driver, fakecuda.Config{}, "fault"); r.Code != 700 || !slices.Equal(r.Is, []string{"lost"}) {
		t.Errorf("%+v", r)
	}
}

// Each call fails once, with an error that a program can survive and with one that it cannot.
func TestEveryCallFails(t *testing.T) {
	_, calls := run(t, driver, fakecuda.Config{}, "all")
	if calls < 40 {
		t.Fatalf("%d calls", calls)
	}
	for code, is := range map[int]string{2: "memory", 719: "lost"} {
		tolerated := make([]bool, calls)
		each(calls, func(i int) {
			c := fakecuda.Config{Failures: []fakecuda.Failure{{Function: "*", Nth: i + 1, Code: code}}}
			r, _ := run(t, driver, c, "all")
			if tolerated[i] = r.Error == ""; !tolerated[i] && (r.Code != code || !slices.Equal(r.Is, []string{is})) {
				t.Errorf("call %d with %d: %+v", i+1, code, r)
			}
		})
		// The question whether read-only memory can be registered may fail; what depends on the
		// answer fails later.
		if n := len(slices.DeleteFunc(tolerated, func(b bool) bool { return !b })); n > 1 {
			t.Errorf("%d calls fail with %d and nobody notices", n, code)
		}
	}
}

// What a stream does fails later, and ends the device.
func TestWorkFails(t *testing.T) {
	for kind, times := range map[string]int{"copy": 4, "set": 1, "kernel": 1} {
		each(2*times, func(i int) {
			code := []int{214, 700}[i%2]
			c := fakecuda.Config{Failures: []fakecuda.Failure{{Function: kind, Nth: i/2 + 1, Code: code}}}
			r, _ := run(t, driver, c, "all")
			if r.Code != code || !slices.Equal(r.Is, []string{"lost"}) {
				t.Errorf("%s %d with %d: %+v", kind, i/2+1, code, r)
			}
		})
	}
}

func TestDevices(t *testing.T) {
	r, _ := run(t, driver, fakecuda.Config{Devices: 2, Memory: 3 << 30}, "devices")
	want := []Device{
		{UUID: "GPU-e0e1e2e3-e4e5-e6e7-e8e9-eaebecedee00", Name: "Fake GPU 0", Memory: 3 << 30, Compute: [2]int{9, 0}},
		{UUID: "GPU-e0e1e2e3-e4e5-e6e7-e8e9-eaebecedee01", Name: "Fake GPU 1", Memory: 3 << 30, Compute: [2]int{9, 0}, Ordinal: 1},
	}
	var got []Device
	if err := json.Unmarshal(r.Result, &got); err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v (%v)", got, err)
	}
	r, _ = run(t, driver, fakecuda.Config{MIG: true}, "devices")
	if err := json.Unmarshal(r.Result, &got); err != nil || !got[0].MIG || !strings.HasPrefix(got[0].UUID, "MIG-c0c1c2c3-") {
		t.Errorf("%+v (%v)", got, err)
	}
}

// Drivers that are old, or do not work.
func TestDrivers(t *testing.T) {
	old, err := fakecuda.Build(t.TempDir(), "cuDeviceGetUuid_v2", "cuIpcGetMemHandle")
	if err == nil {
		err = old.AddModule(testPTX, testModule)
	}
	if err != nil {
		t.Fatal(err)
	}
	fails := func(function string, code int) fakecuda.Config {
		return fakecuda.Config{Failures: []fakecuda.Failure{{Function: function, Code: code}}}
	}
	for _, c := range []struct {
		name   string
		driver *fakecuda.Driver
		config fakecuda.Config
		part   string
		code   int
		is     string
		text   string
	}{
		{"no device", driver, fails("cuInit", 100), "devices", 100, "device", "cuInit: CUDA_ERROR_NO_DEVICE (100)"},
		{"broken", driver, fails("cuInit", 999), "devices", 999, "", "cuInit: CUDA_ERROR_UNKNOWN (999)"},
		{"a code without a name", driver, fails("cuInit", 803), "devices", 803, "", "cuInit: CUDA error 803"},
		{"before 11.0", driver, fakecuda.Config{Version: 10020}, "devices", 0, "old", "it supports CUDA 10.2, batchfs needs 11.0"},
		{"older than the PTX", driver, fakecuda.Config{PTX: 59}, "all", 222, "old", "cuModuleLoadData"},
		{"a part of a GPU", driver, fakecuda.Config{MIG: true}, "all", 801, "", "cuIpcGetMemHandle: CUDA_ERROR_NOT_SUPPORTED (801)"},
		{"little memory", driver, fakecuda.Config{Memory: slab - 1}, "all", 2, "memory", "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)"},
		{"no UUID of a part", old, fakecuda.Config{}, "devices", 0, "", ""},
		{"no IPC", old, fakecuda.Config{}, "all", 36, "old", "cuIpcGetMemHandle: the driver lacks it (36)"},
	} {
		r, _ := run(t, c.driver, c.config, c.part)
		if r.Code != c.code || strings.Join(r.Is, " ") != c.is || !strings.Contains(r.Error, c.text) || (c.text == "") != (r.Error == "") {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// Without a library, with one that is none, and with one without any function of CUDA's, even if
// everything is bound at the start.
func TestNoDriver(t *testing.T) {
	t.Setenv("LD_BIND_NOW", "1")
	dir := t.TempDir()
	library := filepath.Join(dir, "libcuda.so.1")
	expect := func(what, is, text string) {
		if r := start(t, []string{"LD_LIBRARY_PATH=" + dir}, "devices"); strings.Join(r.Is, " ") != is || !strings.Contains(r.Error, text) {
			t.Errorf("%s: %+v", what, r)
		}
	}
	if _, err := Open(); err != nil { // otherwise this machine has a driver
		expect("nothing", "driver", "libcuda.so.1")
	}
	if err := os.WriteFile(library, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	expect("text", "driver", "libcuda.so.1")
	if out, err := exec.Command("cc", "-shared", "-o", library, "-x", "c", os.DevNull).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	expect("an empty library", "old", "cuDriverGetVersion: the driver lacks it (36)")
}

//go:build cuda && linux && cgo && (amd64 || arm64)

package cuda

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/fakecuda"
	"github.com/batchfs/batchfs/internal/testkit"
)

func TestEverythingOnce(t *testing.T) {
	configs := []fakecuda.Config{{}}
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

// TestNestedThreads: a Thread of another device within a Thread restores the outer one's context.
func TestNestedThreads(t *testing.T) {
	if r, _ := run(t, driver, fakecuda.Config{Devices: 2}, "all", "the second device"); r.Error != "" {
		t.Error(r.Error)
	}
}

// TestCallsFail: each of the driver's functions fails, with an error that a program can survive and
// with one that it cannot. Package gpu's tests have each single call fail.
func TestCallsFail(t *testing.T) {
	for _, function := range []string{
		"cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem", "cuDeviceGetAttribute", "cuDeviceGetUuid", "cuDeviceGetUuid_v2",
		"cuDevicePrimaryCtxSetFlags", "cuDevicePrimaryCtxRetain", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuMemGetInfo", "cuMemAlloc", "cuMemHostRegister", "cuMemHostAlloc",
		"cuModuleLoadData", "cuModuleGetFunction", "cuStreamCreate", "cuMemcpyHtoDAsync", "cuMemsetD8Async", "cuMemcpyDtoDAsync", "cuStreamSynchronize",
		"cuLaunchKernel", "cuMemcpyDtoHAsync", "cuMemGetAddressRange", "cuIpcGetMemHandle",
		"cuMemHostUnregister", "cuMemFreeHost", "cuModuleUnload", "cuStreamDestroy", "cuMemFree", "cuDevicePrimaryCtxRelease", "copy", "set", "kernel",
	} {
		for code, is := range map[int]string{2: "memory", 719: "lost"} {
			r, _ := run(t, driver, fakecuda.Config{Failures: []fakecuda.Failure{{Function: function, Nth: 1, Code: code}}}, "all")
			if r.Code != code || !slices.Equal(r.Is, []string{is}) {
				t.Errorf("%s with %d: %+v", function, code, r)
			}
		}
	}
	for _, code := range []int{214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721} {
		if !errors.Is(&Error{Code: code}, ErrLost) {
			t.Errorf("%d does not mean that the GPU is lost", code)
		}
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
	testkit.Must(t, err)
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
	testkit.Must(t, os.WriteFile(library, []byte("text"), 0o644))
	expect("text", "driver", "libcuda.so.1")
	if out, err := exec.Command("cc", "-shared", "-o", library, "-x", "c", os.DevNull).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	expect("an empty library", "old", "cuDriverGetVersion: the driver lacks it (36)")
}

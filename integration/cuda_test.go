package integration

import (
	"debug/elf"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/fakecuda"
	"github.com/batchfs/batchfs/internal/testkit"
)

// TestStartsEverywhere: the binary does not make the dynamic linker look for anything of NVIDIA's,
// neither a library nor a function.
func TestStartsEverywhere(t *testing.T) {
	binary, err := elf.Open(suite.binary)
	check(t, err)
	defer binary.Close()
	libraries, err := binary.ImportedLibraries()
	check(t, err)
	// These are the libraries of libc and, if there are no archives of them, the image libraries.
	usual := regexp.MustCompile(`^(libc|libm|libdl|libpthread|librt|libresolv|ld-linux[-a-z0-9]*|libjpeg|libpng16|libwebp|libsharpyuv|libdeflate|libz)\.`)
	for _, library := range libraries {
		if !usual.MatchString(library) {
			t.Errorf("the binary needs %s", library)
		}
	}
	symbols, err := binary.DynamicSymbols()
	if err != nil && testkit.BuildSetting("CGO_ENABLED") == "1" {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if regexp.MustCompile(`^(cu[A-Z]|nvml)`).MatchString(s.Name) {
			t.Errorf("the dynamic linker sees %s", s.Name)
		}
	}
}

// TestDoctorCUDA: doctor says what the driver can do, or why not, in a line each.
func TestDoctorCUDA(t *testing.T) {
	if testkit.BuildSetting("CGO_ENABLED") != "1" {
		t.Skip("built without cgo")
	}
	driver, err := fakecuda.Build(t.TempDir())
	check(t, err)
	namespace, err := os.Readlink("/proc/self/ns/pid")
	check(t, err)
	handOver := "GPU memory can be handed to other processes"
	if namespace != "pid:[4026531836]" {
		handOver = "PID namespace of its own"
	}
	fails := func(function string, code int) fakecuda.Config {
		return fakecuda.Config{Failures: []fakecuda.Failure{{Function: function, Code: code}}}
	}
	for _, c := range []struct {
		config         fakecuda.Config
		cuda, handOver string // the finding; "": there is no such line
		advice         string
	}{
		{fakecuda.Config{Devices: 2}, "driver for CUDA 12.4; Fake GPU 0, GPU-e0e1e2e3-e4e5-e6e7-e8e9-eaebecedee00, 256 MiB; Fake GPU 1", handOver, ""},
		{fakecuda.Config{MIG: true}, "MIG-c0c1", "is a part of a GPU (MIG)", ""},
		{fakecuda.Config{Version: 10010}, "too old: it supports CUDA 10.1, batchfs needs 11.0", "", "newer driver"},
		{fails("cuInit", 999), "cuInit: CUDA_ERROR_UNKNOWN (999)", "", "nvidia_uvm"},
		{fails("cuDeviceGetName", 719), "cuDeviceGetName: CUDA_ERROR_LAUNCH_FAILED (719)", "", "nvidia-smi"},
		{fails("cuInit", 100), "CUDA_ERROR_NO_DEVICE", "", ""},
	} {
		for _, variable := range driver.Env(c.config) {
			name, value, _ := strings.Cut(variable, "=")
			t.Setenv(name, value)
		}
		var report struct {
			Findings []struct{ Name, Found, Advice string }
		}
		o := execute(t, "doctor", "--json").done(t)
		if err := json.Unmarshal([]byte(o.out), &report); err != nil {
			t.Fatalf("%v: %s", err, o.out)
		}
		found, advice := map[string]string{}, ""
		for _, f := range report.Findings {
			found[f.Name] = f.Found
			if f.Name == "CUDA" {
				advice = f.Advice
			}
		}
		if !strings.Contains(found["CUDA"], c.cuda) || !strings.Contains(found[".cuda files"], c.handOver) || (c.handOver == "") != (found[".cuda files"] == "") {
			t.Errorf("%+v: CUDA: %q, .cuda files: %q", c.config, found["CUDA"], found[".cuda files"])
		}
		if !strings.Contains(advice, c.advice) {
			t.Errorf("%+v: advice: %q", c.config, advice)
		}
	}
}

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/batchfs/batchfs/internal/gpu"
)

// If there is a GPU that CUDA cannot use, doctor says so; if there is none, that is not a problem.
func TestDoctorWithoutCUDA(t *testing.T) {
	_, _, err := gpu.Examine()
	if err == nil {
		t.Skip("CUDA works here")
	}
	advice := "make build"
	if !errors.Is(err, gpu.ErrNotBuilt) {
		advice = "--gpus all"
	}
	for _, files := range []fstest.MapFS{{}, {"dev/nvidia0": {}, "proc/driver/nvidia/version": {Data: []byte("NVRM version: 575\n")}}} {
		var r doctorReport
		host{files: files}.addGPU(&r)
		if r.Findings[0].Found != "none found" && r.Findings[0].Found != "NVIDIA NVRM version: 575" || len(r.Findings) != 2 {
			t.Errorf("%+v", r.Findings)
		}
		f := r.Findings[1]
		if f.OK != (len(files) == 0) || !strings.Contains(f.Found, err.Error()) || !f.OK && !strings.Contains(f.Advice, advice) {
			t.Errorf("%+v", f)
		}
	}
}

func TestDoctorNVJPEG(t *testing.T) {
	for _, c := range []struct {
		version string
		err     error
		ok      bool
		says    string
	}{
		{"12.4.0", nil, true, "12.4.0, for --gpu-decode nvjpeg"},
		{"", fmt.Errorf("%w: no such file", gpu.ErrNoNVJPEG), true, "missing, for --gpu-decode nvjpeg: nvJPEG cannot be loaded: no such file"},
		{"11.6.0", fmt.Errorf("%w: 11.6", gpu.ErrOldNVJPEG), false, "nvJPEG is too old: 11.6"},
	} {
		var r doctorReport
		addNVJPEG(&r, func() (string, error) { return c.version, c.err })
		if f := r.Findings[0]; f.OK != c.ok || f.Found != c.says || (f.Advice == "") != c.ok {
			t.Errorf("%+v", f)
		}
	}
}

func TestDoctorHandOver(t *testing.T) {
	namespace := func(name string) host {
		return host{files: fstest.MapFS{"proc/self/ns/pid": {Mode: fs.ModeSymlink, Data: []byte(name)}}}
	}
	whole, part := gpu.Found{}, gpu.Found{}
	whole.UUID, part.UUID, part.MIG = "GPU-1", "MIG-2", true
	for _, c := range []struct {
		machine host
		devices []gpu.Found
		problem string
	}{
		{namespace(initialNamespace), []gpu.Found{whole}, ""},
		{host{files: fstest.MapFS{}}, []gpu.Found{whole}, ""},
		{namespace("pid:[4026532000]"), []gpu.Found{whole}, "PID namespace"},
		{namespace("pid:[4026532000]"), []gpu.Found{whole, part}, "MIG-2 is a part"},
		{namespace(initialNamespace), []gpu.Found{part}, "MIG-2 is a part"},
	} {
		var r doctorReport
		c.machine.addHandOver(&r, c.devices)
		if f := r.Findings[0]; f.OK != (c.problem == "") || !strings.Contains(f.Found, c.problem) || (f.Advice == "") != f.OK {
			t.Errorf("%+v", f)
		}
	}
}

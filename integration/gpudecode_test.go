package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/fakecuda"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/ptx"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// theKernels lets daemons load the kernels into the GPU in host memory.
var theKernels = sync.OnceValue(func() error {
	driver, err := theGPU()
	if err != nil {
		return err
	}
	code, err := ptx.ToC(gpu.PTX)
	if err != nil {
		return err
	}
	return driver.AddModule(gpu.PTX, code)
})

// mountDecoding mounts a dataset whose JPEGs a GPU in host memory decodes, too.
func mountDecoding(t testing.TB, c fakecuda.Config, dataset string, flags ...string) withGPU {
	t.Helper()
	if testkit.BuildSetting("CGO_ENABLED") != "0" {
		check(t, theKernels())
	}
	return mountWithGPU(t, c, dataset, append(flags, "--gpu-decode", "exact")...)
}

// epochsOf returns all batches of some epochs; an error takes the place of bytes.
func epochsOf(t testing.TB, m *mounted, epochs int) (all []string) {
	t.Helper()
	for e := range epochs {
		all = append(all, epochOf(t, m, e)...)
	}
	return all
}

func epochOf(t testing.TB, m *mounted, epoch int) (all []string) {
	t.Helper()
	names, err := os.ReadDir(m.epochDir(0, epoch))
	check(t, err)
	for _, n := range names {
		if batch, form, ok := layout.Names(nil).ParseBatchName(n.Name()); ok && form == layout.NHWCForm {
			data, err := os.ReadFile(m.path(0, epoch, batch, form))
			if err != nil {
				data = []byte(err.(*os.PathError).Err.Error())
			}
			all = append(all, string(data))
		}
	}
	return all
}

// TestGPUDecodes: no byte depends on whether a GPU decodes, and two readers of .cuda files find the
// same ones there.
func TestGPUDecodes(t *testing.T) {
	dataset := jpegs(t, 32, 200, 280)
	for _, flags := range [][]string{
		{"--resize", "random-resized-crop", "--shuffle", "--flip", "0.5"},
		{"--resize", "stretch", "--dtype", "float32", "--jpeg-scaling=off", "--cache-size", "64MiB", "--cache-policy", "static"},
	} {
		t.Run(strings.Join(flags[:2], " "), func(t *testing.T) {
			t.Parallel()
			flags := append(flags, "--size", "96x96", "--batch-size", "16")
			m := mountDecoding(t, fakecuda.Config{Delay: 2 * time.Millisecond, Seed: 9}, dataset, flags...)
			plain := mountBatchfs(t, dataset, append(flags, "--gpu", "none")...)
			var paths []string
			for e := range 2 {
				for b := range 2 {
					paths = append(paths, m.path(0, e, b, layout.CUDA))
				}
			}
			m.sameOnGPU(t, 2, paths...)
			want := epochsOf(t, plain, 2)
			for i, got := range epochsOf(t, m.mounted, 2) {
				if got != want[i] {
					t.Errorf("batch %d differs", i)
				}
			}
			if n := m.stats(t).JPEGs.GPU; n == 0 {
				t.Error("the GPU decoded nothing")
			}
		})
	}
}

// TestGPUDecodesAlone: if no reader can open a GPU's memory, because it is a part of a GPU or the
// system cannot export it, the GPU decodes for readers of host memory. Without decoding, a part is
// of no use.
func TestGPUDecodesAlone(t *testing.T) {
	dataset := jpegs(t, 32, 100, 140)
	flags := []string{"--size", "64x64", "--resize", "stretch", "--jpeg-scaling=off", "--batch-size", "16"}
	want := epochsOf(t, mountBatchfs(t, dataset, append(flags, "--gpu", "none")...), 2)
	m := mountDecoding(t, fakecuda.Config{MIG: true}, dataset, flags...)
	off := mountWithGPU(t, fakecuda.Config{MIG: true}, dataset, flags...)
	failing := mountDecoding(t, fakecuda.Config{Failures: []fakecuda.Failure{{Function: "cuIpcGetMemHandle", Code: 801}}}, dataset, flags...)
	for _, c := range []struct {
		m     withGPU
		errno string
	}{{m, "No such file"}, {off, "No such file"}, {failing, "Input/output error"}} {
		if _, err := c.m.try("cat", c.m.path(0, 0, 0, layout.CUDA)); err == nil || !strings.Contains(err.Error(), c.errno) {
			t.Error(err)
		}
		before := c.m.stats(t).JPEGs.GPU
		if !slices.Equal(epochsOf(t, c.m.mounted, 2), want) {
			t.Error("other bytes")
		}
		if decodes := c.m.stats(t).JPEGs.GPU > before; decodes == (c.m.mounted == off.mounted) {
			t.Errorf("the GPU decoded %v", decodes)
		}
	}
	var config struct{ GPU string }
	if m.document(t, ".batchfs/config.json", &config); !strings.Contains(config.GPU, "no .cuda files: MIG-") {
		t.Error(config.GPU)
	}
	if off.document(t, ".batchfs/config.json", &config); !strings.HasPrefix(config.GPU, "none: MIG-") {
		t.Error(config.GPU)
	}
}

// TestGPUDecodingFails: when the GPU cannot decode, or is lost while it does, processors decode,
// and this is logged once.
func TestGPUDecodingFails(t *testing.T) {
	flags := []string{"--size", "64x64", "--resize", "stretch", "--jpeg-scaling=off", "--batch-size", "16"}
	dataset := jpegs(t, 40, 200, 280)
	want := epochsOf(t, mountBatchfs(t, dataset, append(flags, "--gpu", "none")...), 1)
	for _, c := range []fakecuda.Config{
		{PTX: 50}, {Memory: 1 << 20},
		{Failures: []fakecuda.Failure{{Function: "kernel", Nth: 3, Code: 719}}},
	} {
		m := mountDecoding(t, c, dataset, flags...)
		epoch := 0
		eventually(t, fmt.Sprintf("%+v: it is said", c), func() bool { // a slow GPU has little to do in one epoch
			for i, got := range epochOf(t, m.mounted, epoch) {
				if got != want[i] {
					t.Errorf("%+v: batch %d of epoch %d differs", c, i, epoch)
				}
			}
			epoch++
			return strings.Contains(m.logged(), "the GPU does not decode")
		})
		m.finish(t) // which completes the log
		if n := strings.Count(m.logged(), "the GPU does not decode"); n != 1 {
			t.Errorf("%+v: said %d times:\n%s", c, n, m.logged())
		}
	}
}

// theNVJPEG lets daemons find nvJPEG beside the GPU in host memory.
var theNVJPEG = sync.OnceValue(func() error {
	driver, err := theGPU()
	if err != nil {
		return err
	}
	return driver.AddNVJPEG()
})

// mountNVJPEG mounts a dataset whose JPEGs nvJPEG decodes.
func mountNVJPEG(t testing.TB, c fakecuda.Config, dataset string, flags ...string) withGPU {
	t.Helper()
	if testkit.BuildSetting("CGO_ENABLED") != "0" {
		for _, prepare := range []func() error{theKernels, theNVJPEG} {
			check(t, prepare())
		}
	}
	return mountWithGPU(t, c, dataset, append(flags, "--gpu-decode", "nvjpeg")...)
}

// named returns what dataset.json says about the decoder.
func named(t testing.TB, m *mounted) (decoder, fingerprint string) {
	t.Helper()
	var d struct{ Decoder, Fingerprint string }
	m.document(t, "dataset.json", &d)
	return d.Decoder, d.Fingerprint
}

// TestNVJPEG: the bytes are the same in every form, also if some files are damaged; they are
// nvJPEG's own, and the fingerprint says so.
func TestNVJPEG(t *testing.T) {
	dataset := jpegs(t, 40, 200, 280)
	for _, i := range []string{"003", "017"} {
		name := filepath.Join(dataset, i+".jpg")
		data := mustRead(t, name)
		if data = data[:len(data)/2]; i == "017" { // only decoding shows it
			data = append(data, 0xff, 0xd9)
		}
		writeFile(t, name, data)
	}
	flags := []string{"--resize", "random-resized-crop", "--size", "64x96", "--shuffle", "--flip", "0.5", "--batch-size", "16", "--on-error", "replace"}
	m := mountNVJPEG(t, fakecuda.Config{Delay: time.Millisecond, Seed: 9}, dataset, flags...)
	var paths []string
	for e := range 2 {
		for b := range 2 {
			paths = append(paths, m.path(0, e, b, layout.CUDA))
		}
	}
	m.sameOnGPU(t, 1, paths...)
	want := epochsOf(t, m.mounted, 2)
	if n := m.stats(t).JPEGs.GPU; n < 76 {
		t.Errorf("nvJPEG decoded %d samples", n)
	}
	exact := mountBatchfs(t, dataset, append(flags, "--gpu", "none")...)
	for i, got := range epochsOf(t, exact, 2) {
		if got == want[i] {
			t.Errorf("batch %d is not nvJPEG's", i)
		}
	}
	hybrid := mountNVJPEG(t, fakecuda.Config{NoEngine: true}, dataset, flags...)
	seen := map[string]bool{}
	for m, says := range map[*mounted]string{
		m.mounted:      "nvJPEG 12.4.0, hardware, on Fake GPU 0, libjpeg",
		hybrid.mounted: "nvJPEG 12.4.0, GPU-hybrid, on Fake GPU 0, libjpeg", exact: "libjpeg",
	} {
		decoder, fingerprint := named(t, m)
		seen[fingerprint] = true
		if !strings.HasPrefix(decoder, says) {
			t.Error(decoder)
		}
	}
	if len(seen) != 3 {
		t.Errorf("fingerprints: %v", seen)
	}
}

// TestNVJPEGRefused: a mount that should use nvJPEG is refused if nvJPEG is missing or does not
// work.
func TestNVJPEGRefused(t *testing.T) {
	m := mountWithGPU(t, fakecuda.Config{}, photos(t), "--batch-size", "4")
	variables := m.driver.Env(fakecuda.Config{})
	dir, without := strings.TrimPrefix(variables[0], "LD_LIBRARY_PATH="), scratch(t)
	check(t, theNVJPEG())
	check(t, os.Symlink(filepath.Join(dir, "libcuda.so.1"), filepath.Join(without, "libcuda.so.1")))
	for _, c := range []struct{ dir, settings, flags, says, hint string }{
		{without, "", "", "--gpu-decode nvjpeg: nvJPEG cannot be loaded: libnvjpeg.so.13: ", "pip install nvidia-nvjpeg-cu12"},
		{dir, "version=11008", "", "--gpu-decode nvjpeg: nvJPEG is too old: it is version 11.8.0, batchfs needs 11.9", "pip install nvidia-nvjpeg-cu12"},
		{dir, "nvjpegCreateEx=1:6", "", "--gpu-decode nvjpeg: nvJPEG failed: nvjpegCreateEx returned 6", "batchfs doctor"},
		{dir, "", "--gpu=none", "--gpu-decode nvjpeg needs a GPU: --gpu is none", "batchfs doctor"},
	} {
		args := slices.Concat([]string{"env"}, variables[1:], []string{"LD_LIBRARY_PATH=" + c.dir, "FAKE_NVJPEG=" + c.settings,
			suite.binary, "mount", "--gpu-decode", "nvjpeg"}, strings.Fields(c.flags), []string{photos(t), scratch(t)})
		_, err := output(thisUser().reader(0, args))
		if err == nil || strings.Count(err.Error(), "batchfs: error: "+c.says) != 1 || !strings.Contains(err.Error(), "batchfs: hint: ") ||
			!strings.Contains(err.Error(), c.hint) || !strings.Contains(err.Error(), "exit status 1") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	env := slices.Concat([]string{"env"}, variables, []string{suite.binary, "doctor"})
	if text, _ := output(thisUser().reader(0, env)); !strings.Contains(text, "12.4.0, for --gpu-decode nvjpeg") {
		t.Error(text)
	}
}

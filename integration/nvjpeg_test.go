package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/fakecuda"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

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

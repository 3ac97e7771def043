package integration

import (
	"fmt"
	"os"
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

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/layout"
)

// A gpuRequest says which GPU a mount puts batches on, and how.
type gpuRequest struct {
	which  string // none, auto, a number or a UUID
	limit  int64  // bytes; 0: half of the GPU's free memory
	decode string // off, exact or nvjpeg
}

const (
	gpuFlag  = "gpu"
	gpuNone  = "none"
	gpuAuto  = "auto"
	limitGPU = "device-memory-limit"
	decodeOn = "gpu-decode"

	decodeOff    = "off"
	decodeExact  = "exact"
	decodeNVJPEG = "nvjpeg"
)

func gpuFlags(f *flagSet, r *gpuRequest) {
	f.group = aboutPipeline
	f.add(gpuFlag, gpuAuto, "the GPU that batches can be read on, as .cuda: `none|auto|N|UUID`; auto is the first, and each mount uses one", anything(&r.which, "none, auto, the number of a GPU or its UUID"))
	f.add(decodeOn, decodeOff, "JPEGs that the GPU decodes: none; some, beside the processors, with exactly the same bytes; or all that NVIDIA's nvJPEG takes, to bytes of its own: `off|exact|nvjpeg`",
		oneOf(&r.decode, decodeOff, decodeExact, decodeNVJPEG))
	f.derived(limitGPU, "half of what is free", "batches, and decoding, take no more than `SIZE` of the GPU's memory", byteSize(&r.limit))
}

// open finds the GPU of a mount that lists some forms, if there is one, and says which it is. A GPU
// whose memory other processes cannot open is useful only for decoding.
func (r gpuRequest) open(o *engine.Options, list []layout.Form) (which string, err error) {
	driver := gpu.Driver(nil)
	if r.which != gpuNone {
		driver, err = gpu.Find(r.which)
	}
	if driver != nil && (r.decode == decodeOff || slices.Contains(list, layout.CUDA)) {
		if err = driver.CannotShare(); err != nil {
			driver = nil
		}
	}
	switch listed := slices.Contains(list, layout.CUDA); {
	case err != nil && r.which != gpuAuto:
		return "", hint(fmt.Errorf("--%s %s: %w", gpuFlag, r.which, err), "batchfs doctor")
	case driver == nil && listed:
		return "", hint(fmt.Errorf("--list cuda needs a GPU: %w", cmp.Or(err, errors.New("--gpu is none"))), "batchfs doctor")
	case driver == nil && r.decode != decodeOff:
		return "", hint(fmt.Errorf("--%s %s needs a GPU: %w", decodeOn, r.decode, cmp.Or(err, errors.New("--gpu is none"))), "batchfs doctor")
	case err != nil:
		return "none: " + err.Error(), nil
	case driver == nil:
		return gpuNone, nil
	}
	o.DecodeOnDevice = r.decode == decodeExact
	o.Device = gpu.New(driver, gpu.Options{Limit: r.limit, Growth: o.Memory.DeviceGrowth})
	which = driver.UUID()
	if why := driver.CannotShare(); why != nil {
		which += ": it decodes, but there are no .cuda files: " + why.Error()
	}
	return which, r.openNVJPEG(o)
}

// openNVJPEG has the GPU decode with nvJPEG, if that is asked for.
func (r gpuRequest) openNVJPEG(o *engine.Options) (err error) {
	if r.decode != decodeNVJPEG {
		return nil
	}
	if o.NVJPEG, err = o.Device.OpenNVJPEG(o.Decoding.Color == decode.Gray); err == nil {
		return nil
	}
	closeDevice(o)
	refused := fmt.Errorf("--%s %s: %w", decodeOn, decodeNVJPEG, err)
	if errors.Is(err, gpu.ErrNoNVJPEG) || errors.Is(err, gpu.ErrOldNVJPEG) {
		return hint(refused, nvjpegAdvice)
	}
	return hint(refused, "batchfs doctor")
}

const nvjpegAdvice = "install libnvjpeg, for example with pip install nvidia-nvjpeg-cu12, and name its directory in LD_LIBRARY_PATH"

// closeDevice closes the GPU, after the engine. Its errors are those of a lost GPU, which was
// reported before.
func closeDevice(o *engine.Options) {
	if o.Device != nil {
		_ = o.Device.Close()
	}
}

// describeUse says how much of a mount's GPU batches and others use.
func describeUse(g *engine.GPUStats) string {
	text := g.UUID + ", batches " + formatBytes(g.Batches)
	if g.Limit > 0 {
		text += " of " + formatBytes(g.Limit)
	}
	if g.MemoryTotal > 0 {
		text += fmt.Sprintf("; all processes %s of %s", formatBytes(g.MemoryUsed), formatBytes(g.MemoryTotal))
	}
	if g.Busy >= 0 {
		text += fmt.Sprintf(", %.0f %% busy", 100*g.Busy)
	}
	if g.Error != "" {
		text += "; lost: " + g.Error
	}
	return text
}

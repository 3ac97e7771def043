package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/gpu"
)

// addGPU adds whether there is a GPU, whether CUDA can use it, and whether other processes can open
// batches in its memory.
func (m host) addGPU(r *doctorReport) {
	device := m.gpuDevice()
	r.add("GPU", device, "", "")
	version, found, err := gpu.Examine()
	switch {
	case err == nil:
		r.add("CUDA", describeGPUs(version, found), "", "")
		addNVJPEG(r, gpu.NVJPEGVersion)
		m.addHandOver(r, found)
	case strings.HasPrefix(device, "NVIDIA") || !slices.ContainsFunc([]error{gpu.ErrNotBuilt, gpu.ErrNoDriver, gpu.ErrNoDevice},
		func(usual error) bool { return errors.Is(err, usual) }):
		r.add("CUDA", "", err.Error(), cudaAdvice(err))
	default: // usual without a GPU
		r.add("CUDA", "not used: "+err.Error(), "", "")
	}
}

// addNVJPEG adds the version of nvJPEG, if there is one. A mount does not need it, unless it is
// told to use it.
func addNVJPEG(r *doctorReport, find func() (version string, err error)) {
	version, err := find()
	found := version + ", for --" + decodeOn + " " + decodeNVJPEG
	if errors.Is(err, gpu.ErrNoNVJPEG) {
		found, err = "missing, for --"+decodeOn+" "+decodeNVJPEG+": "+err.Error(), nil
	}
	r.add("nvJPEG", found, problem(err), nvjpegAdvice)
}

// gpuDevice finds a GPU by its device file.
func (m host) gpuDevice() string {
	for _, kind := range []struct{ device, name string }{
		{"dev/nvidia0", "NVIDIA " + m.line("proc/driver/nvidia/version")}, {"dev/kfd", "AMD"},
	} {
		if _, err := fs.Stat(m.files, kind.device); err == nil {
			return kind.name
		}
	}
	return "none found"
}

func describeGPUs(version int, found []gpu.Found) string {
	text := fmt.Sprintf("driver for CUDA %d.%d", version/1000, version%1000/10)
	for _, g := range found {
		text += fmt.Sprintf("; %s, %s, %s", g.Name, g.UUID, formatBytes(g.Memory))
		if u := g.Usage; u.MemoryTotal > 0 {
			text += fmt.Sprintf(" (%s of the GPU's %s used)", formatBytes(u.MemoryUsed), formatBytes(u.MemoryTotal))
		}
	}
	return text
}

// cudaAdvice says what to do about an error of gpu.Examine.
func cudaAdvice(err error) string {
	switch {
	case errors.Is(err, gpu.ErrNotBuilt):
		return "this batchfs cannot use the GPU: build it with cgo: make build"
	case errors.Is(err, gpu.ErrNoDriver):
		return "install NVIDIA's driver with libcuda.so.1; in a container: --gpus all, with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
	case errors.Is(err, gpu.ErrOldDriver):
		return "install a newer driver of NVIDIA's"
	case errors.Is(err, gpu.ErrNoDevice):
		return "set CUDA_VISIBLE_DEVICES to a GPU that nvidia-smi -L lists; in a container: --gpus all"
	default:
		return "nvidia-smi shows whether the driver works; load what may be missing: sudo modprobe nvidia_uvm; or reboot after an update of the driver"
	}
}

// initialNamespace is the kernel's name of the first PID namespace.
const initialNamespace = "pid:[4026531836]"

// addHandOver adds whether other processes can open a mount's memory on the GPU. They can never
// open that of a part of a GPU, and only if they are in the same PID namespace.
func (m host) addHandOver(r *doctorReport, found []gpu.Found) {
	const name = ".cuda files"
	part := slices.IndexFunc(found, func(g gpu.Found) bool { return g.MIG })
	namespace, err := fs.ReadLink(m.files, "proc/self/ns/pid")
	switch {
	case part >= 0:
		r.add(name, "", found[part].UUID+" is a part of a GPU (MIG): its memory cannot be handed to other processes",
			"use a whole GPU, or read the batches from host memory: --"+decodeOn+" works there, too")
	case err == nil && namespace != initialNamespace:
		r.add(name, "", "GPU memory can only be handed to processes in this container, which has a PID namespace of its own",
			"start both the mount and its readers in one container, or each with --pid=host (hostPID: true)")
	default:
		r.add(name, "GPU memory can be handed to other processes outside containers, and in those with --pid=host", "", "")
	}
}

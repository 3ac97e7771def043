package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/affinity"
	"github.com/batchfs/batchfs/internal/cuda"
)

// addGPU adds whether there is a GPU, whether CUDA can use it, and whether batches in its memory can be handed to other processes.
func (m machine) addGPU(r *doctorReport) {
	gpu := m.gpu()
	r.add("GPU", gpu, "", "")
	driver, err := cuda.Open()
	var devices []cuda.Device
	if err == nil {
		devices, err = driver.Devices()
	}
	switch {
	case err == nil:
		r.add("CUDA", describeDevices(driver, devices), "", "")
		addNVJPEG(r, cuda.NVJPEGVersion)
		m.addHandOver(r, devices)
	case strings.HasPrefix(gpu, "NVIDIA") || !slices.ContainsFunc([]error{cuda.ErrNotBuilt, cuda.ErrNoDriver, cuda.ErrNoDevice},
		func(usual error) bool { return errors.Is(err, usual) }):
		r.add("CUDA", "", err.Error(), cudaAdvice(err))
	default: // usual without a GPU
		r.add("CUDA", "not used: "+err.Error(), "", "")
	}
}

// addNVJPEG adds which nvJPEG there is. A mount needs none, unless it is told to use it.
func addNVJPEG(r *doctorReport, find func() (version string, err error)) {
	version, err := find()
	found := version + ", for --" + decodeOn + " " + decodeNVJPEG
	if errors.Is(err, cuda.ErrNoNVJPEG) {
		found, err = "missing, for --"+decodeOn+" "+decodeNVJPEG+": "+err.Error(), nil
	}
	r.add("nvJPEG", found, problem(err), nvjpegAdvice)
}

// gpu is a GPU by its device file.
func (m machine) gpu() string {
	for _, kind := range []struct{ device, name string }{
		{"dev/nvidia0", "NVIDIA " + m.line("proc/driver/nvidia/version")}, {"dev/kfd", "AMD"},
	} {
		if _, err := fs.Stat(m.files, kind.device); err == nil {
			return kind.name
		}
	}
	return "none found"
}

func describeDevices(driver *cuda.Driver, devices []cuda.Device) string {
	text := fmt.Sprintf("driver for CUDA %d.%d", driver.Version/1000, driver.Version%1000/10)
	for _, d := range devices {
		text += fmt.Sprintf("; %s, %s, %s", d.Name, d.UUID, formatBytes(d.Memory))
		if u, ok := affinity.UsageOf(d.UUID); ok {
			text += fmt.Sprintf(" (%s of the GPU's %s used)", formatBytes(u.MemoryUsed), formatBytes(u.MemoryTotal))
		}
	}
	return text
}

// cudaAdvice says what to do about an error of cuda.Open.
func cudaAdvice(err error) string {
	switch {
	case errors.Is(err, cuda.ErrNotBuilt):
		return "this batchfs cannot use the GPU: build it with cgo: make build"
	case errors.Is(err, cuda.ErrNoDriver):
		return "install NVIDIA's driver with libcuda.so.1; in a container: --gpus all, with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
	case errors.Is(err, cuda.ErrOldDriver):
		return "install a newer driver of NVIDIA's"
	case errors.Is(err, cuda.ErrNoDevice):
		return "set CUDA_VISIBLE_DEVICES to a GPU that nvidia-smi -L lists; in a container: --gpus all"
	default:
		return "nvidia-smi shows whether the driver works; load what may be missing: sudo modprobe nvidia_uvm; or reboot after an update of the driver"
	}
}

// initialNamespace is what the kernel calls the first namespace of processes.
const initialNamespace = "pid:[4026531836]"

// addHandOver adds whether other processes can open GPU memory of a mount: never that of parts of a GPU, and only if they are numbered in the same namespace.
func (m machine) addHandOver(r *doctorReport, devices []cuda.Device) {
	const name = ".cuda files"
	part := slices.IndexFunc(devices, func(d cuda.Device) bool { return d.MIG })
	namespace, err := fs.ReadLink(m.files, "proc/self/ns/pid")
	switch {
	case part >= 0:
		r.add(name, "", devices[part].UUID+" is a part of a GPU (MIG): its memory cannot be handed to other processes",
			"use a whole GPU, or read the batches from host memory")
	case err == nil && namespace != initialNamespace:
		r.add(name, "", "GPU memory can only be handed to processes in this container, which has a PID namespace of its own",
			"start both the mount and its readers in one container, or each with --pid=host (hostPID: true)")
	default:
		r.add(name, "GPU memory can be handed to other processes outside containers, and in those with --pid=host", "", "")
	}
}

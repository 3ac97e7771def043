//go:build linux && cgo && (amd64 || arm64)

package machine

import (
	"math/bits"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/batchfs/batchfs/internal/dynlib"
)

// recommended returns the CPUs, numbered below a limit, that this machine's driver recommends for a
// GPU.
func recommended(gpu string, below int) (s CPUs) {
	if dynlib.OpenNVML() == nil {
		s = ask(nvml.New(), gpu, below)
	}
	return s
}

func ask(lib nvml.Interface, gpu string, below int) (s CPUs) {
	onDevice(lib, gpu, func(device nvml.Device) {
		// The CPUs of the socket; drivers before CUDA 11 know only those nearest to the device.
		mask, ret := device.GetCpuAffinityWithinScope(below, nvml.AFFINITY_SCOPE_SOCKET)
		if s = ofMask(mask); ret == nvml.SUCCESS && len(s) > 0 {
			return
		}
		if mask, ret = device.GetCpuAffinity(below); ret != nvml.SUCCESS {
			mask = nil
		}
		s = ofMask(mask)
	})
	return s
}

// GPUUseOf returns NVML's present report on a GPU, which is an index or a UUID as in
// [FindProcessors]. It only reads; ok is false if there is no answer.
func GPUUseOf(gpu string) (u GPUUse, ok bool) {
	if dynlib.OpenNVML() == nil {
		u, ok = usage(nvml.New(), gpu)
	}
	return u, ok
}

func usage(lib nvml.Interface, gpu string) (u GPUUse, ok bool) {
	onDevice(lib, gpu, func(device nvml.Device) {
		memory, ret := device.GetMemoryInfo()
		if ok = ret == nvml.SUCCESS; !ok {
			return
		}
		u = GPUUse{MemoryUsed: int64(memory.Used), MemoryTotal: int64(memory.Total), Busy: -1}
		if busy, ret := device.GetUtilizationRates(); ret == nvml.SUCCESS {
			u.Busy = float64(busy.Gpu) / 100
		}
		mode, _, ret := device.GetMigMode()
		u.MIG = ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE
	})
	return u, ok
}

// onDevice opens NVML, calls f with one device, if it exists, and closes NVML again: a daemon that
// kept the driver open would prevent an administrator from resetting the device. After a failed
// Init nothing else may be called.
func onDevice(lib nvml.Interface, gpu string, f func(nvml.Device)) {
	if lib.Init() != nvml.SUCCESS {
		return
	}
	defer lib.Shutdown()
	if device, ret := find(lib, gpu); ret == nvml.SUCCESS {
		f(device)
	}
}

// ofMask converts a mask of NVML's.
func ofMask(mask []uint) (s CPUs) {
	for i, word := range mask {
		for ; word != 0; word &= word - 1 {
			s = append(s, i*bits.UintSize+bits.TrailingZeros(word))
		}
	}
	return s
}

// find returns the device that firstOf named; for a part of a device, the device itself.
func find(lib nvml.Interface, gpu string) (nvml.Device, nvml.Return) {
	if i, isIndex := number(gpu); isIndex || gpu == "" {
		return lib.DeviceGetHandleByIndex(i)
	}
	device, ret := lib.DeviceGetHandleByUUID(gpu)
	if ret == nvml.SUCCESS && strings.HasPrefix(gpu, "MIG-") {
		device, ret = device.GetDeviceHandleFromMigDeviceHandle()
	}
	if ret == nvml.SUCCESS {
		return device, ret
	}
	// The beginning of exactly one UUID, or the older form MIG-GPU-UUID/INSTANCE/INSTANCE.
	start, _, _ := strings.Cut(strings.TrimPrefix(gpu, "MIG-"), "/")
	var found []nvml.Device
	n, _ := lib.DeviceGetCount()
	for i := range n {
		if device, ret := lib.DeviceGetHandleByIndex(i); ret == nvml.SUCCESS {
			if uuid, ret := device.GetUUID(); ret == nvml.SUCCESS && strings.HasPrefix(uuid, start) {
				found = append(found, device)
			}
		}
	}
	if len(found) != 1 {
		return nil, nvml.ERROR_NOT_FOUND
	}
	return found[0], nvml.SUCCESS
}

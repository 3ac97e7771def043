//go:build linux && cgo && (amd64 || arm64)

package affinity

import (
	"math/bits"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/batchfs/batchfs/internal/dynlib"
)

// recommended returns the CPUs below a number that this machine's driver recommends for a GPU.
func recommended(gpu string, below int) Set {
	if dynlib.OpenNVML() != nil {
		return nil
	}
	return ask(nvml.New(), gpu, below)
}

// ask opens NVML, asks for one device, and closes it again: a daemon that kept the driver open
// would prevent an administrator from resetting the device. After a failed Init nothing else may
// be called.
func ask(lib nvml.Interface, gpu string, below int) Set {
	if lib.Init() != nvml.SUCCESS {
		return nil
	}
	defer lib.Shutdown()
	device, ret := find(lib, gpu)
	if ret != nvml.SUCCESS {
		return nil
	}
	// The CPUs of the socket; drivers before CUDA 11 know only those nearest to the device.
	mask, ret := device.GetCpuAffinityWithinScope(below, nvml.AFFINITY_SCOPE_SOCKET)
	if s := ofMask(mask); ret == nvml.SUCCESS && len(s) > 0 {
		return s
	}
	if mask, ret = device.GetCpuAffinity(below); ret != nvml.SUCCESS {
		return nil
	}
	return ofMask(mask)
}

// ofMask converts a mask of NVML.
func ofMask(mask []uint) (s Set) {
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

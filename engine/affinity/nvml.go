//go:build linux && cgo && (amd64 || arm64)

package affinity

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "nvmltable.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// go-nvml leaves the functions of NVML undefined, for the dynamic linker to find when they are
// first called. If the library is missing, or older than the function, that ends the process;
// with toolchains or a libc that bind at start (hardened compilers, LD_BIND_NOW, musl) the
// program does not even run. So nvmltable.c defines them all: they return
// ERROR_FUNCTION_NOT_FOUND until openLibrary has found the driver's.

// library is the one that go-nvml opens, too.
const library = "libnvidia-ml.so.1"

var openLibrary = sync.OnceValue(func() bool {
	path := C.CString(library)
	defer C.free(unsafe.Pointer(path))
	return C.batchfs_nvml_open(path) != 0
})

// askNVML asks this machine's driver.
func askNVML(gpu string, cpus int) (*GPU, error) {
	if !openLibrary() {
		return nil, fmt.Errorf("%w: %s not found", errNoNVML, library)
	}
	return ask(nvml.New(), gpu, cpus)
}

// ask opens NVML, asks for one device, and closes it again: a daemon that kept the driver open
// would prevent an administrator from resetting the device. After a failed Init nothing else may
// be called.
func ask(lib nvml.Interface, gpu string, cpus int) (*GPU, error) {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return nil, fmt.Errorf("%w: %s", errNoNVML, reason(ret))
	}
	q := question{lib}
	defer q.close()
	device, err := q.find(gpu)
	if err != nil {
		return nil, err
	}
	return &GPU{Name: q.name(device), UUID: q.uuid(device), PCI: q.slot(device), CPUs: q.affinity(device, cpus)}, nil
}

// A question is a query to an initialised NVML. It calls no function that the driver lacks.
type question struct{ nvml.Interface }

// has reports whether the driver has a function, in any of its versions.
func (q question) has(symbols ...string) bool {
	for _, symbol := range symbols {
		if q.Extensions().LookupSymbol(symbol) == nil {
			return true
		}
	}
	return false
}

func (q question) close() {
	if q.has("nvmlShutdown") {
		q.Shutdown()
	}
}

// find returns the device for an index or a UUID; for a part of a device, the device itself.
func (q question) find(gpu string) (nvml.Device, error) {
	if i, isIndex := index(gpu); isIndex {
		return q.at(i)
	}
	if device, ok := q.whole(gpu); ok {
		return device, nil
	}
	uuids := q.uuids()
	if i := match(gpu, uuids); i >= 0 {
		return q.at(i)
	}
	return nil, noSuchGPU(gpu, len(uuids))
}

func (q question) at(i int) (nvml.Device, error) {
	if !q.has("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex") {
		return nil, fmt.Errorf("GPU %d: %s", i, reason(nvml.ERROR_FUNCTION_NOT_FOUND))
	}
	device, ret := q.DeviceGetHandleByIndex(i)
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("GPU %d: %s", i, reason(ret))
	}
	return device, nil
}

// whole finds a device, or the device of a part, by a complete UUID.
func (q question) whole(uuid string) (nvml.Device, bool) {
	if !q.has("nvmlDeviceGetHandleByUUID") {
		return nil, false
	}
	device, ret := q.DeviceGetHandleByUUID(uuid)
	if ret != nvml.SUCCESS || !strings.HasPrefix(uuid, "MIG-") {
		return device, ret == nvml.SUCCESS
	}
	if !q.has("nvmlDeviceGetDeviceHandleFromMigDeviceHandle") {
		return nil, false
	}
	device, ret = device.GetDeviceHandleFromMigDeviceHandle()
	return device, ret == nvml.SUCCESS
}

// uuids lists all devices' UUIDs, "" for a device that does not tell.
func (q question) uuids() []string {
	if !q.has("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount") {
		return nil
	}
	n, ret := q.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil
	}
	uuids := make([]string, n)
	for i := range uuids {
		if device, err := q.at(i); err == nil {
			uuids[i] = q.uuid(device)
		}
	}
	return uuids
}

func (q question) uuid(device nvml.Device) string {
	if !q.has("nvmlDeviceGetUUID") {
		return ""
	}
	uuid, ret := device.GetUUID()
	return ifSuccess(uuid, ret)
}

func (q question) name(device nvml.Device) string {
	if !q.has("nvmlDeviceGetName") {
		return ""
	}
	name, ret := device.GetName()
	return ifSuccess(name, ret)
}

// slot returns a device's slot as in /sys; NVML writes its domain with more digits.
func (q question) slot(device nvml.Device) string {
	if !q.has("nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo") {
		return ""
	}
	info, ret := device.GetPciInfo()
	return ifSuccess(fmt.Sprintf("%04x:%02x:%02x.0", info.Domain, info.Bus, info.Device), ret)
}

// affinity returns the CPUs of the device's socket; drivers before CUDA 11 know only those
// nearest to it.
func (q question) affinity(device nvml.Device, cpus int) Set {
	if q.has("nvmlDeviceGetCpuAffinityWithinScope") {
		mask, ret := device.GetCpuAffinityWithinScope(cpus, nvml.AFFINITY_SCOPE_SOCKET)
		if s := ofMask(mask); ret == nvml.SUCCESS && !s.Empty() {
			return s
		}
	}
	if q.has("nvmlDeviceGetCpuAffinity") {
		mask, ret := device.GetCpuAffinity(cpus)
		return ifSuccess(ofMask(mask), ret)
	}
	return Set{}
}

func ifSuccess[T any](value T, ret nvml.Return) T {
	if ret != nvml.SUCCESS {
		var none T
		return none
	}
	return value
}

// reason describes a failure. NVML has its own texts, but getting them is another call.
func reason(ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return library + " not found"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the NVIDIA driver is not loaded"
	case nvml.ERROR_NO_PERMISSION:
		return "no permission to use the NVIDIA driver"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "the NVIDIA driver and its libraries are of different versions"
	case nvml.ERROR_FUNCTION_NOT_FOUND:
		return "the NVIDIA driver is too old"
	case nvml.ERROR_INVALID_ARGUMENT, nvml.ERROR_NOT_FOUND:
		return "no such device"
	default:
		return fmt.Sprintf("NVML error %d", int32(ret))
	}
}

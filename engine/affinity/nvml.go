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
// program does not even run. So nvmltable.c defines them all. Those that the driver lacks, and
// all of them until openLibrary has found it, return ERROR_FUNCTION_NOT_FOUND.

// library is the one that go-nvml opens, too.
const library = "libnvidia-ml.so.1"

var openLibrary = sync.OnceValue(func() bool {
	path := C.CString(library)
	defer C.free(unsafe.Pointer(path))
	return C.batchfs_nvml_open(path) != 0
})

// askNVML asks this machine's driver.
func askNVML(gpu string, cpus int) (device, bool) {
	if !openLibrary() {
		return device{}, false
	}
	return ask(nvml.New(), gpu, cpus)
}

// ask opens NVML, asks for one device, and closes it again: a daemon that kept the driver open
// would prevent an administrator from resetting the device. After a failed Init nothing else may
// be called.
func ask(lib nvml.Interface, gpu string, cpus int) (d device, works bool) {
	if lib.Init() != nvml.SUCCESS {
		return d, false
	}
	defer lib.Shutdown()
	handle, found := find(lib, gpu)
	if !found {
		return d, true
	}
	if info, ret := handle.GetPciInfo(); ret == nvml.SUCCESS { // NVML writes the domain with more digits than /sys
		d.slot = fmt.Sprintf("%04x:%02x:%02x.0", info.Domain, info.Bus, info.Device)
	}
	// The CPUs of the socket; drivers before CUDA 11 know only those nearest to the device.
	mask, ret := handle.GetCpuAffinityWithinScope(cpus, nvml.AFFINITY_SCOPE_SOCKET)
	if d.cpus = ofMask(mask); ret != nvml.SUCCESS || len(d.cpus) == 0 {
		mask, ret = handle.GetCpuAffinity(cpus)
		if d.cpus = ofMask(mask); ret != nvml.SUCCESS {
			d.cpus = nil
		}
	}
	return d, true
}

// find returns the device for an index or a UUID; for a part of a device, the device itself.
func find(lib nvml.Interface, gpu string) (nvml.Device, bool) {
	if i, isIndex := number(gpu); isIndex || gpu == "" {
		device, ret := lib.DeviceGetHandleByIndex(i)
		return device, ret == nvml.SUCCESS
	}
	device, ret := lib.DeviceGetHandleByUUID(gpu)
	if ret == nvml.SUCCESS && strings.HasPrefix(gpu, "MIG-") {
		device, ret = device.GetDeviceHandleFromMigDeviceHandle()
	}
	if ret == nvml.SUCCESS {
		return device, true
	}
	n, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, false
	}
	uuids := make([]string, n) // "" for a device that does not tell
	for i := range uuids {
		if device, ret := lib.DeviceGetHandleByIndex(i); ret == nvml.SUCCESS {
			uuids[i], _ = device.GetUUID()
		}
	}
	i := choose(gpu, uuids)
	if i < 0 {
		return nil, false
	}
	device, ret = lib.DeviceGetHandleByIndex(i)
	return device, ret == nvml.SUCCESS
}

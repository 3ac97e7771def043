//go:build cuda && linux && cgo && (amd64 || arm64)

package cuda

// #include "cuda.h"
import "C"

import (
	"fmt"
	"unsafe"

	"gorgonia.org/cu"
)

// Alloc allocates memory, whose content is undefined. The error may be ErrMemory.
func (t *Thread) Alloc(bytes int64) (Pointer, error) {
	p, err := cu.MemAlloc(bytes)
	return Pointer(p), cuCheck("cuMemAlloc", err)
}

// Free frees memory that Alloc returned. All work on the device that uses it must be done.
func (t *Thread) Free(p Pointer) error { return cuCheck("cuMemFree", cu.MemFree(cu.DevicePtr(p))) }

// MemoryInfo returns the device's memory, and how much of it is free, in bytes.
func (t *Thread) MemoryInfo() (free, total int64, err error) {
	free, total, err = cu.MemInfo()
	return free, total, cuCheck("cuMemGetInfo", err)
}

// Register page-locks host memory, so that copies need not wait: whole pages outside Go's heap,
// which must stay mapped until Unregister. It counts as registered for all devices.
func (t *Thread) Register(b []byte) error {
	return check("cuMemHostRegister", C.cuMemHostRegister(address(b), C.size_t(len(b)), C.CU_MEMHOSTREGISTER_PORTABLE))
}

// Unregister undoes Register of the same bytes.
func (t *Thread) Unregister(b []byte) error {
	return check("cuMemHostUnregister", C.cuMemHostUnregister(address(b)))
}

func address(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// AllocHost allocates host memory that is registered from the start. FreeHost frees it.
func (t *Thread) AllocHost(bytes int) ([]byte, error) {
	var p unsafe.Pointer
	if err := check("cuMemHostAlloc", C.cuMemHostAlloc(&p, C.size_t(bytes), C.CU_MEMHOSTREGISTER_PORTABLE)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), bytes), nil
}

// FreeHost frees memory that AllocHost returned. All copies that use it must be done.
func (t *Thread) FreeHost(b []byte) error { return check("cuMemFreeHost", C.cuMemFreeHost(address(b))) }

// Export returns a handle for other processes to open memory that Alloc returned. Its size must be
// a multiple of granularity. The handle is void once the memory is freed, or this process ends.
func (t *Thread) Export(p Pointer) (h IPCHandle, err error) {
	var start C.CUdeviceptr
	var size C.size_t
	if err := check("cuMemGetAddressRange", C.cuMemGetAddressRange(&start, &size, C.CUdeviceptr(p))); err != nil {
		return h, err
	}
	if Pointer(start) != p || size%granularity != 0 {
		return h, fmt.Errorf("memory at %#x of an allocation of %d bytes at %#x cannot be exported: only whole ones, of a multiple of %d bytes",
			p, size, start, granularity)
	}
	err = check("cuIpcGetMemHandle", C.cuIpcGetMemHandle((*C.CUipcMemHandle)(unsafe.Pointer(&h)), C.CUdeviceptr(p)))
	return h, err
}

// An Import is memory that another process exported.
type Import struct{ At Pointer }

// OpenIPC opens memory of the same device. The exporting process itself cannot do this.
func (t *Thread) OpenIPC(h IPCHandle) (*Import, error) {
	var p C.CUdeviceptr
	err := check("cuIpcOpenMemHandle", C.cuIpcOpenMemHandle(&p, *(*C.CUipcMemHandle)(unsafe.Pointer(&h)), C.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
	return &Import{Pointer(p)}, err
}

// Close must be called before the other process frees the memory.
func (i *Import) Close() error {
	return check("cuIpcCloseMemHandle", C.cuIpcCloseMemHandle(C.CUdeviceptr(i.At)))
}

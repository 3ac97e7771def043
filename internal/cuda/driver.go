//go:build cuda && linux && cgo && (amd64 || arm64)

package cuda

// #include "cuda.h"
import "C"

import (
	"cmp"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/batchfs/batchfs/internal/dynlib"
)

// oldest is the first version with everything that is used, except for functions whose callers
// handle their absence.
const oldest = 11000

// Open finds and initializes the driver, once for the process; that can take seconds. The error is
// ErrNotBuilt, ErrNoDriver, ErrOldDriver, ErrNoDevice or an Error.
var Open = sync.OnceValues(func() (*Driver, error) {
	if err := dynlib.OpenCUDA(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDriver, err)
	}
	var version C.int
	if err := check("cuDriverGetVersion", C.cuDriverGetVersion(&version)); err != nil {
		return nil, err
	}
	if version < oldest {
		return nil, fmt.Errorf("%w: it supports CUDA %d.%d, batchfs needs %d.%d", ErrOldDriver,
			version/1000, version%1000/10, oldest/1000, oldest%1000/10)
	}
	if err := check("cuInit", C.CUresult(dynlib.InitCUDA())); err != nil {
		return nil, err
	}
	return &Driver{int(version)}, nil
})

// check returns the error of a call.
func check(call string, result C.CUresult) error {
	if result == C.CUDA_SUCCESS {
		return nil
	}
	e := &Error{Call: call, Code: int(result)}
	var name *C.char
	if e.Code == missing {
		e.Name = "the driver lacks it"
	} else if C.cuGetErrorName(result, &name) == C.CUDA_SUCCESS && name != nil {
		e.Name = C.GoString(name)
	}
	return e
}

// cuCheck returns the error of a call through cu, whose type of result is not exported.
func cuCheck(call string, err error) error {
	if err == nil {
		return nil
	}
	return check(call, C.CUresult(reflect.ValueOf(err).Int()))
}

// Devices lists the devices that this process can use.
func (d *Driver) Devices() ([]Device, error) {
	n, err := cu.NumDevices()
	if err != nil {
		return nil, cuCheck("cuDeviceGetCount", err)
	}
	devices := make([]Device, n)
	for i := range devices {
		if devices[i], err = describe(i); err != nil {
			return nil, err
		}
	}
	return devices, nil
}

func describe(ordinal int) (Device, error) {
	d := Device{Ordinal: ordinal}
	dev, err := cu.GetDevice(ordinal)
	if err != nil {
		return d, cuCheck("cuDeviceGet", err)
	}
	var failed error
	must := func(call string, err error) { failed = cmp.Or(failed, cuCheck(call, err)) }
	d.Name, err = dev.Name()
	must("cuDeviceGetName", err)
	d.Memory, err = dev.TotalMem()
	must("cuDeviceTotalMem", err)
	for i, attribute := range []cu.DeviceAttribute{cu.ComputeCapabilityMajor, cu.ComputeCapabilityMinor} {
		d.Compute[i], err = dev.Attribute(attribute)
		must("cuDeviceGetAttribute", err)
	}
	return d, cmp.Or(failed, d.identify(C.CUdevice(dev)))
}

// identify sets the UUID. The first version of the call always returns the GPU's; the second
// returns that of the part given to the process.
func (d *Device) identify(dev C.CUdevice) error {
	var gpu, part C.CUuuid
	if err := check("cuDeviceGetUuid", C.cuDeviceGetUuid(&gpu, dev)); err != nil {
		return err
	}
	kind := "GPU"
	switch result := C.cuDeviceGetUuid_v2(&part, dev); {
	case result == missing: // a driver older than MIG in containers
		part = gpu
	case result != C.CUDA_SUCCESS:
		return check("cuDeviceGetUuid_v2", result)
	case part != gpu:
		kind, d.MIG = "MIG", true
	}
	b := C.GoBytes(unsafe.Pointer(&part), C.int(unsafe.Sizeof(part)))
	d.UUID = fmt.Sprintf("%s-%x-%x-%x-%x-%x", kind, b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	return nil
}

// A Thread is an operating system thread on which a device's context is current.
type Thread struct{}

// Thread runs f on the calling goroutine, bound to its thread, with the device's primary context.
// It returns f's error. f must release everything that it made. Threads may be nested: f may use
// its own again after an inner one has ended.
func (d Device) Thread(f func(*Thread) error) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dev := cu.Device(d.Ordinal)
	// Waiting threads sleep. Otherwise they would take processors from decoding.
	if err := cuCheck("cuDevicePrimaryCtxSetFlags", dev.SetPrimaryCtxFlags(cu.SchedBlockingSync)); err != nil {
		return err
	}
	context, err := dev.RetainPrimaryCtx()
	if err != nil {
		return cuCheck("cuDevicePrimaryCtxRetain", err)
	}
	defer func() { err = cmp.Or(err, cuCheck("cuDevicePrimaryCtxRelease", dev.ReleasePrimaryCtx())) }()
	before, err := cu.CurrentContext() // that of an outer Thread, if they are nested
	if err != nil {
		return cuCheck("cuCtxGetCurrent", err)
	}
	if err := cuCheck("cuCtxSetCurrent", cu.SetCurrentContext(context)); err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, cuCheck("cuCtxSetCurrent", cu.SetCurrentContext(before))) }()
	return f(&Thread{})
}

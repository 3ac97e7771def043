//go:build cuda && linux && cgo && (amd64 || arm64)

package cuda

import (
	"unsafe"

	"gorgonia.org/cu"
)

// A Stream is work that the device does in order, concurrently with other streams.
type Stream struct{ s cu.Stream }

// NewStream returns a stream that does not wait for others.
func (t *Thread) NewStream() (*Stream, error) {
	s, err := cu.MakeStream(cu.NonBlocking)
	return &Stream{s}, cuCheck("cuStreamCreate", err)
}

// Close ends the stream; its remaining work is still done.
func (s *Stream) Close() error { return cuCheck("cuStreamDestroy", s.s.Destroy()) }

// ToDevice copies from the host.
func (s *Stream) ToDevice(dst Pointer, src []byte) error {
	return cuCheck("cuMemcpyHtoDAsync", cu.MemcpyHtoDAsync(cu.DevicePtr(dst), address(src), int64(len(src)), s.s))
}

// ToHost copies to the host.
func (s *Stream) ToHost(dst []byte, src Pointer) error {
	return cuCheck("cuMemcpyDtoHAsync", cu.MemcpyDtoHAsync(address(dst), cu.DevicePtr(src), int64(len(dst)), s.s))
}

// Copy copies bytes on the device, between places that do not overlap.
func (s *Stream) Copy(dst, src Pointer, bytes int64) error {
	return cuCheck("cuMemcpyDtoDAsync", cu.MemcpyDtoDAsync(cu.DevicePtr(dst), cu.DevicePtr(src), bytes, s.s))
}

// fill sets bytes on the device to a value.
func (s *Stream) fill(dst Pointer, value byte, bytes int64) error {
	return cuCheck("cuMemsetD8Async", cu.MemsetD8Async(cu.DevicePtr(dst), value, bytes, s.s))
}

// Synchronize waits until all work of the stream is done.
func (s *Stream) Synchronize() error { return cuCheck("cuStreamSynchronize", s.s.Synchronize()) }

// A Module is code on the device.
type Module struct{ m cu.Module }

// Load compiles PTX for the device. The error is ErrOldDriver if the driver is older than the PTX.
func (t *Thread) Load(ptx string) (*Module, error) {
	m, err := cu.LoadData(ptx)
	return &Module{m}, cuCheck("cuModuleLoadData", err)
}

// Close unloads the module. None of its functions may be running.
func (m *Module) Close() error { return cuCheck("cuModuleUnload", m.m.Unload()) }

// A Function is a kernel of a module.
type Function struct{ f cu.Function }

// Function finds a kernel by its name. Its only parameter must be a pointer.
func (m *Module) Function(name string) (Function, error) {
	f, err := m.m.Function(name)
	return Function{f}, cuCheck("cuModuleGetFunction", err)
}

// Launch makes the stream run grid[0]*grid[1]*grid[2] blocks (the latter two at most 65,535) of
// block[0]*block[1]*block[2] threads each, with shared bytes of memory that the kernel does not
// declare itself.
func (f Function) Launch(grid, block [3]int, shared int, s *Stream, param Pointer) error {
	// cu passes eight bytes for each parameter.
	return cuCheck("cuLaunchKernel", f.f.Launch(grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, s.s,
		[]unsafe.Pointer{unsafe.Pointer(&param)}))
}

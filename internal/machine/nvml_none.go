//go:build !linux || !cgo || !(amd64 || arm64)

package machine

// recommended returns nothing: NVML is a C library, and NVIDIA has drivers for only two processors.
func recommended(string, int) CPUs { return nil }

// GPUUseOf reports nothing.
func GPUUseOf(string) (GPUUse, bool) { return GPUUse{}, false }

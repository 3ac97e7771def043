//go:build !linux || !cgo || !(amd64 || arm64)

package affinity

// askNVML never works: NVML is a C library, and NVIDIA has drivers for only two processors.
func askNVML(string, int) (device, bool) { return device{}, false }

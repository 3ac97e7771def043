//go:build !linux || !cgo || !(amd64 || arm64)

package affinity

// recommended knows nothing: NVML is a C library, and NVIDIA has drivers for only two processors.
func recommended(string, int) Set { return nil }

// UsageOf knows nothing.
func UsageOf(string) (Usage, bool) { return Usage{}, false }

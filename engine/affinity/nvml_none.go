//go:build !linux || !cgo || !(amd64 || arm64)

package affinity

import "fmt"

// askNVML always fails: NVML is a C library, and NVIDIA has drivers for only two processors.
func askNVML(string, int) (*GPU, error) {
	return nil, fmt.Errorf("%w in this build", errNoNVML)
}

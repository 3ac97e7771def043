//go:build !linux || !cgo || !(amd64 || arm64)

package affinity

import "fmt"

// askNVML: NVML is a C library, and its vendor has drivers for two processors.
func askNVML(string, int) (*GPU, error) {
	return nil, fmt.Errorf("%w in this build", errNoNVML)
}

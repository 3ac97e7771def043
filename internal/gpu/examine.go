package gpu

import (
	"github.com/batchfs/batchfs/internal/cuda"
	"github.com/batchfs/batchfs/internal/machine"
)

// A Found is a GPU that CUDA can use.
type Found struct {
	cuda.Device
	Usage machine.GPUUse // by all processes; MemoryTotal is 0 if it is not known
}

// Examine returns the version of the driver, as 1000 times the major plus ten times the minor
// version, and the GPUs that this process can use. The error says why there are none.
func Examine() (version int, found []Found, err error) {
	driver, err := cuda.Open()
	if err != nil {
		return 0, nil, err
	}
	devices, err := driver.Devices()
	for _, d := range devices {
		usage, _ := machine.GPUUseOf(d.UUID)
		found = append(found, Found{d, usage})
	}
	return driver.Version, found, err
}

// NVJPEGVersion is the version of nvJPEG that this process finds.
func NVJPEGVersion() (string, error) { return cuda.NVJPEGVersion() }

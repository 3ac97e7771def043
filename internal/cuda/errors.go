package cuda

import (
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/internal/fault"
)

// Reasons why no GPU can be used.
var (
	ErrNotBuilt  = errors.New("built without CUDA")
	ErrNoDriver  = errors.New("NVIDIA's driver cannot be loaded")
	ErrOldDriver = errors.New("NVIDIA's driver is too old")
	ErrNoDevice  = errors.New("no NVIDIA GPU is visible")
)

// Reasons why nvJPEG cannot be used.
var (
	ErrNoNVJPEG  = errors.New("nvJPEG cannot be loaded")
	ErrOldNVJPEG = errors.New("nvJPEG is too old")
)

// What an [Error], or an error of a [JPEGDecoder], can mean.
var (
	ErrMemory = fault.New(fault.Memory, "out of GPU memory")
	ErrLost   = errors.New("the GPU is lost to this process")
	ErrNVJPEG = errors.New("nvJPEG failed") // not because of an image
)

// An Error is the result of a call that failed.
type Error struct {
	Call string // CUDA's function
	Code int    // CUDA's number
	Name string // CUDA's name for it, as CUDA_ERROR_OUT_OF_MEMORY; may be empty
}

func (e *Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%s: CUDA error %d", e.Call, e.Code)
	}
	return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
}

// Unwrap returns the error of this package that e means; nil if there is none.
func (e *Error) Unwrap() error { return meanings[e.Code] }

// missing is what internal/dynlib returns for a function that the driver lacks.
const missing = 36

// meanings of CUDA's numbers. After those that mean ErrLost, every later call in the process fails
// the same way.
var meanings = map[int]error{
	2:       ErrMemory,
	missing: ErrOldDriver,
	100:     ErrNoDevice,
	214:     ErrLost,      // an uncorrectable error of the device's memory
	220:     ErrLost,      // an uncorrectable error of NVLink
	222:     ErrOldDriver, // PTX is newer than the driver
	700:     ErrLost,      // an illegal address
	702:     ErrLost,      // a kernel that ran for too long
	709:     ErrLost,      // the context was destroyed
	710:     ErrLost,      // an assertion
	714:     ErrLost,      // the stack
	715:     ErrLost,      // an illegal instruction
	716:     ErrLost,      // a misaligned address
	717:     ErrLost,      // an address of the wrong kind
	718:     ErrLost,      // the program counter
	719:     ErrLost,      // a kernel that failed, or a device that is gone
	721:     ErrLost,      // tensor memory
}

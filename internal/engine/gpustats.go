package engine

import (
	"cmp"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/machine"
)

// GPUStats is the GPU that batches are put on. Sizes are in bytes.
type GPUStats struct {
	UUID    string `json:"uuid"`
	Limit   int64  `json:"limit"`           // memory for batches; 0: unknown until the first batch is put there
	Batches int64  `json:"batches"`         // memory allocated for batches
	Error   string `json:"error,omitempty"` // why the GPU is lost

	// What NVML says, about all processes together; 0 and -1 if it says nothing.
	MemoryUsed  int64   `json:"memory_used"`
	MemoryTotal int64   `json:"memory_total"`
	Busy        float64 `json:"busy"` // share of the last moment in which a kernel ran; -1: unknown
}

// A gpuUse asks NVML how much of a GPU is in use. If the driver does not answer soon, statistics
// get the previous answer.
type gpuUse struct {
	asking singleflight.Group
	last   atomic.Pointer[machine.GPUUse] // nil: no answer yet
}

const nvmlWait = 200 * time.Millisecond

func (g *gpuUse) stats(uuid string, c gpu.Stats) *GPUStats {
	answer := g.asking.DoChan(uuid, func() (any, error) {
		u, ok := machine.GPUUseOf(uuid)
		if !ok {
			u = machine.GPUUse{Busy: -1}
		}
		g.last.Store(&u)
		return nil, nil
	})
	select {
	case <-answer:
	case <-time.After(nvmlWait):
	}
	last := cmp.Or(g.last.Load(), &machine.GPUUse{})
	s := &GPUStats{UUID: uuid, Limit: c.Limit, Batches: c.Reserved, MemoryUsed: last.MemoryUsed, MemoryTotal: last.MemoryTotal, Busy: last.Busy}
	if c.Lost != nil {
		s.Error = c.Lost.Error()
	}
	return s
}

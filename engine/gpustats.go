package engine

import (
	"sync"
	"time"

	"github.com/batchfs/batchfs/internal/affinity"
	"github.com/batchfs/batchfs/internal/gpu"
)

// GPUStats is the GPU that batches are put on. Sizes are in bytes.
type GPUStats struct {
	UUID    string `json:"uuid"`
	Limit   int64  `json:"limit"`           // for batches; 0: not known before the first one is put there
	Batches int64  `json:"batches"`         // allocated for them
	Error   string `json:"error,omitempty"` // why the GPU is lost

	// What NVML says, about all processes together; 0 and -1 if it says nothing.
	MemoryUsed  int64   `json:"memory_used"`
	MemoryTotal int64   `json:"memory_total"`
	Busy        float64 `json:"busy"` // share of the last moment in which a kernel ran
}

// A gpuUse asks NVML how much of a GPU is in use. Statistics do not wait long for a driver that does not
// answer: they get the answer before.
type gpuUse struct {
	mu     sync.Mutex
	last   affinity.Usage
	asking chan struct{} // closed when there is a new answer; nil: NVML is not being asked
}

const nvmlWait = 200 * time.Millisecond

func (g *gpuUse) stats(uuid string, c gpu.Stats) *GPUStats {
	select {
	case <-g.ask(uuid):
	case <-time.After(nvmlWait):
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &GPUStats{UUID: uuid, Limit: c.Limit, Batches: c.Reserved, MemoryUsed: g.last.MemoryUsed, MemoryTotal: g.last.MemoryTotal, Busy: g.last.Busy}
	if c.Lost != nil {
		s.Error = c.Lost.Error()
	}
	return s
}

func (g *gpuUse) ask(uuid string) (answered <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asking != nil {
		return g.asking
	}
	done := make(chan struct{})
	g.asking = done
	go func() {
		u, ok := affinity.UsageOf(uuid)
		if !ok {
			u = affinity.Usage{Busy: -1}
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.last, g.asking = u, nil
		close(done)
	}()
	return done
}

package engine

import (
	"sync"
	"sync/atomic"
	"time"
)

// gpuShare divides the samples of batches between the GPU and the processors by how fast each was.
// nil: no GPU makes samples.
type gpuShare struct {
	mu                sync.Mutex
	device, processor float64 // seconds that each of them takes per sample; 0: unknown
	pause             int     // how many more portions are 0

	whole bool // the GPU gets everything: for nvJPEG, and for tests

	failed     atomic.Bool  // the GPU failed
	hanging    atomic.Int32 // calls that host forms have stopped waiting for
	reportOnce sync.Once    // reports that the GPU failed
}

const (
	leastPortion = 4  // fewer samples are not worth the launches
	longestPause = 64 // portions, before a GPU that was too slow is measured again
	memoryOfTime = 8  // measurements that an average is made of
)

// isOn reports whether there is a GPU that makes samples now.
func (s *gpuShare) isOn() bool { return s != nil && !s.failed.Load() && s.hanging.Load() == 0 }

// takesAll reports whether the GPU gets everything.
func (s *gpuShare) takesAll() bool {
	if !s.isOn() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whole
}

// portion is how many of n samples one of the workers that use the GPU should take, so that it is
// done when the processors are done with the rest. If the GPU would get too few, it gets none, and
// some again after many portions: it may have become faster.
func (s *gpuShare) portion(n, processors int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.whole {
		return n
	}
	if s.pause > 0 {
		s.pause--
		return 0
	}
	k := n / 2
	if s.device > 0 && s.processor > 0 {
		together := s.processor / float64(processors)
		k = int(float64(n) * together / (together + s.device))
	}
	if k < leastPortion {
		s.pause = longestPause
		k = leastPortion
	}
	if k > n {
		return 0
	}
	return k
}

// pauseGPU gives everything to the processors for a while.
func (s *gpuShare) pauseGPU() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause = longestPause
}

func (s *gpuShare) deviceTook(began time.Time, samples int) { s.took(&s.device, began, samples) }

func (s *gpuShare) processorTook(began time.Time, samples int) {
	if s != nil {
		s.took(&s.processor, began, samples)
	}
}

func (s *gpuShare) took(average *float64, began time.Time, samples int) {
	each := max(time.Since(began).Seconds(), 1e-9) / float64(max(samples, 1))
	s.mu.Lock()
	defer s.mu.Unlock()
	if *average == 0 {
		*average = each
	}
	*average += (each - *average) / memoryOfTime
}

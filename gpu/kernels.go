package gpu

import _ "embed"

// PTX is the module with all kernels. Each has one parameter: the address of the staging buffer on
// the device.
//
//go:embed kernels/kernels.ptx
var PTX string

// A Launch is one kernel to run: its grid of blocks, each of so many threads, and the bytes of shared memory
// of a block.
type Launch struct {
	Kernel          string
	Grid            [3]int
	Threads, Shared int
}

const (
	mostShared = 48 << 10 // that every GPU has without asking for more
	mostGrid   = 1<<16 - 1
	mostTile   = 64 // columns: enough that a row's sums are shared by several blocks at their borders only

	placeThreads = 128
)

// Launches returns what to run, in this order.
func (p *Plan) Launches() []Launch {
	s := p.tensor.Spec
	if len(p.samples) == 0 {
		return nil
	}
	tiles := (s.W + p.tile - 1) / p.tile
	return []Launch{
		{"bfs_place", [3]int{tiles, min(s.H, mostGrid), min(len(p.samples), mostGrid)}, placeThreads, p.shared(p.tile)},
	}
}

// shared is the shared memory that tiles of so many columns take.
func (p *Plan) shared(tile int) int {
	n := 0
	for i := range p.samples {
		if s := &p.samples[i]; !s.Job.Transform.Copies() {
			n = max(n, s.x.Span(tile))
		}
	}
	return 2 * n * p.tensor.Spec.C
}

package gpu

import _ "embed"

// PTX is the module with all kernels. Each has one parameter: the address of the staging buffer on
// the device.
//
//go:embed kernels/kernels.ptx
var PTX string

// A Launch is one kernel to run: its grid of blocks, the threads per block, and the bytes of shared
// memory per block.
type Launch struct {
	Kernel          string
	Grid            [3]int
	Threads, Shared int
}

// The kernels, which doc.go describes.
const (
	entropyKernel   = "bfs_entropy"
	transformKernel = "bfs_transform"
	convertKernel   = "bfs_convert"
	placeKernel     = "bfs_place"
)

const (
	mostShared = 48 << 10  // every GPU has this much by default
	mostGrid   = 1<<16 - 1 // along all axes but the first
	mostTile   = 64        // columns: wide enough that few source pixels are read by two blocks

	// As in the kernels' sources.
	entropyThreads = 256
	transformed    = 32 // blocks of coefficients per block of threads
	stretchBits    = 2048
)

// Launches returns the kernels to run, in this order.
func (p *Plan) Launches() (all []Launch) {
	s := p.tensor.Spec
	if n := len(p.jpegs); n > 0 {
		blocks, rows := 0, 0
		for _, i := range p.jpegs {
			blocks, rows = max(blocks, int(p.samples[i].packed.Blocks)), max(rows, p.samples[i].Job.Region.H)
		}
		all = []Launch{
			{entropyKernel, [3]int{n, 1, 1}, entropyThreads, 4 + 12*entropyThreads},
			{transformKernel, [3]int{(blocks + transformed - 1) / transformed, s.C, min(n, p.grid)}, 8 * transformed, 160 * transformed},
			{convertKernel, [3]int{1, min(rows, p.grid), min(n, p.grid)}, 128, 0},
		}
	}
	if len(p.samples) > 0 && s.SampleBytes() > 0 {
		tiles := (s.W + p.tile - 1) / p.tile
		all = append(all, Launch{placeKernel, [3]int{tiles, min(s.H, p.grid), min(len(p.samples), p.grid)}, 128, p.shared(p.tile)})
	}
	return all
}

// shared is the shared memory for tiles of tile columns.
func (p *Plan) shared(tile int) int {
	n := 0
	for i := range p.samples {
		if s := &p.samples[i]; !s.Job.Transform.Copies() {
			n = max(n, s.x.Span(tile))
		}
	}
	return 2 * n * p.tensor.Spec.C
}

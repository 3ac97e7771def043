package gen

import "math/rand/v2"

// rng draws random numbers. Every image has its own, made from the seed and the image's index.
type rng struct{ *rand.Rand }

func newRNG(seed, index uint64) rng { return rng{rand.New(rand.NewPCG(seed, index))} }

// between returns a number in [low, high], or low if the range is empty.
func (r rng) between(low, high int) int { return low + r.IntN(max(high-low, 0)+1) }

// A tile is a square of noise around 0 that wraps around at its edges. Noise is made once and
// looked up, each time from another offset: a pixel then costs a few additions, whatever the
// number of octaves.
type tile [tileSize][tileSize]int8

const (
	tileSize = 512
	tileMask = tileSize - 1
)

// tiles are the kinds of noise used in pictures. They are read-only once made, and shared by all
// workers.
type tiles struct {
	soft  *tile // clouds, stains: large shapes only
	rough *tile // rock, bark: all sizes
	fine  *tile // grass, sand: small shapes only
	grain *tile // sensor noise
}

// octave is noise of one size, with a weight in 1/128.
type octave struct{ cell, weight int }

func newTiles(seed uint64) *tiles {
	r := newRNG(seed, 1<<63)
	return &tiles{
		soft:  newTile(r, octave{128, 110}, octave{64, 70}, octave{32, 40}, octave{16, 20}, octave{8, 10}),
		rough: newTile(r, octave{64, 80}, octave{32, 60}, octave{16, 50}, octave{8, 40}, octave{4, 35}, octave{2, 30}, octave{1, 20}),
		fine:  newTile(r, octave{8, 40}, octave{4, 60}, octave{2, 70}, octave{1, 40}),
		grain: newTile(r, octave{1, 110}),
	}
}

func newTile(r rng, octaves ...octave) *tile {
	var sum [tileSize][tileSize]int
	for _, o := range octaves {
		n := tileSize / o.cell
		lattice := make([]int, n*n)
		for i := range lattice {
			lattice[i] = (r.IntN(256) - 128) * o.weight
		}
		ease := make([]int, o.cell) // from 0 to 256, smoothly
		for i := range ease {
			f := i * 256 / o.cell
			ease[i] = f * f * (3*256 - 2*f) >> 16
		}
		for y := range tileSize {
			upper, lower := lattice[y/o.cell*n:][:n], lattice[(y/o.cell+1)%n*n:][:n]
			for x := range tileSize {
				left, right, e := x/o.cell, (x/o.cell+1)%n, ease[x%o.cell]
				top := upper[left] + (upper[right]-upper[left])*e>>8
				bottom := lower[left] + (lower[right]-lower[left])*e>>8
				sum[y][x] += top + (bottom-top)*ease[y%o.cell]>>8
			}
		}
	}
	t := new(tile)
	for y := range sum {
		for x, v := range sum[y] {
			t[y][x] = int8(clamp(v>>7, -127, 127))
		}
	}
	return t
}

func clamp(v, low, high int) int { return min(max(v, low), high) }

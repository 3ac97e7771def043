package gen

// Noise is made once and then looked up: a tile wraps around at its edges, and each picture
// reads it at its own offset. A pixel then costs only a few additions, whatever the number of
// octaves.

const (
	tileBits = 10
	tileSize = 1 << tileBits
	tileMask = tileSize - 1
)

// tile is a square of noise, rows of tileSize values around 0.
type tile [tileSize][tileSize]int8

// tiles are the kinds of noise used in pictures. They are read-only once made, and shared by all
// workers.
type tiles struct {
	soft   *tile // clouds, stains: large shapes only
	rough  *tile // rock, bark: all sizes
	relief *tile // rough, lit from one side
	fine   *tile // grass, sand: small shapes only
	grain  *tile // sensor noise
}

func newTiles(seed uint64) *tiles {
	r := rng(seed ^ 0x74696c6573)
	t := &tiles{
		soft:  newTile(&r, map[int]int{256: 110, 128: 70, 64: 40, 32: 22, 16: 12, 8: 6}),
		rough: newTile(&r, map[int]int{128: 70, 64: 55, 32: 44, 16: 36, 8: 32, 4: 30, 2: 30, 1: 20}),
		fine:  newTile(&r, map[int]int{8: 40, 4: 60, 2: 70, 1: 40}),
		grain: newTile(&r, map[int]int{1: 110}),
	}
	t.relief = t.rough.lit()
	return t
}

// newTile sums octaves: weights, in 1/128, by cell size.
func newTile(r *rng, weights map[int]int) *tile {
	sum := make([]int32, tileSize*tileSize)
	for cell := tileSize; cell > 0; cell /= 2 { // in a fixed order: each octave draws from r
		if w := weights[cell]; w > 0 {
			addOctave(sum, r, cell, int32(w))
		}
	}
	t := new(tile)
	for i, v := range sum {
		t[i>>tileBits][i&tileMask] = int8(clamp(int(v>>7), -127, 127))
	}
	return t
}

// addOctave adds smoothly interpolated values of a lattice with the given cell size.
func addOctave(sum []int32, r *rng, cell int, weight int32) {
	n := tileSize / cell
	lattice := make([]int32, n*n)
	for i := range lattice {
		lattice[i] = int32(r.below(256)-128) * weight
	}
	if cell == 1 {
		for i, v := range lattice {
			sum[i] += v
		}
		return
	}
	ease := make([]int32, cell)
	for i := range ease {
		f := int32(i) * 256 / int32(cell)
		ease[i] = f * f * (3*256 - 2*f) >> 16
	}
	row := make([]int32, n+1)
	for y := range tileSize {
		upper, lower := lattice[y/cell*n:][:n], lattice[(y/cell+1)%n*n:][:n]
		for i := range n {
			row[i] = upper[i] + (lower[i]-upper[i])*ease[y%cell]>>8
		}
		row[n] = row[0]
		out := sum[y*tileSize:][:tileSize]
		for i := range n {
			from, step := row[i], row[i+1]-row[i]
			for j, e := range ease {
				out[i*cell+j] += from + step*e>>8
			}
		}
	}
}

// lit returns the tile as a surface lit from the upper left.
func (t *tile) lit() *tile {
	l := new(tile)
	for y := range tileSize {
		above, below := &t[(y-1)&tileMask], &t[(y+1)&tileMask]
		for x := range tileSize {
			v := int(below[(x+1)&tileMask]) - int(above[(x-1)&tileMask])
			l[y][x] = int8(clamp(2*v, -127, 127))
		}
	}
	return l
}

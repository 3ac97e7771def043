package resample

import "math"

// reference is what Resize must come close to, written from the definition and sharing no code
// with it: a matrix of weights per axis, in float64, applied to columns first, with one rounding
// at the end.
func reference(src Image, t Transform) []byte {
	my, mx := matrix(t.Y), matrix(t.X)
	out := make([]byte, 0, t.Y.N*t.X.N*src.Channels)
	narrowed := make([][]float64, src.Height)
	for _, row := range my {
		acc := make([]float64, t.X.N*src.Channels)
		for y, wy := range row {
			if narrowed[y] == nil {
				narrowed[y] = make([]float64, t.X.N*src.Channels)
				for i, columns := range mx {
					for x, wx := range columns {
						for c := range src.Channels {
							narrowed[y][i*src.Channels+c] += wx * float64(src.Pix[y*src.Stride+x*src.Channels+c])
						}
					}
				}
			}
			for i, v := range narrowed[y] {
				acc[i] += wy * v
			}
		}
		for _, v := range acc {
			out = append(out, byte(math.Floor(v+0.5)))
		}
	}
	return out
}

// matrix returns, for each output, the weight of each pixel that has one.
func matrix(a Axis) []map[int]float64 {
	radius := math.Max(1, a.Step)
	m := make([]map[int]float64, a.N)
	for i := range m {
		centre := a.Start + (float64(i)+0.5)*a.Step
		m[i] = map[int]float64{}
		sum := 0.0
		for j := max(a.Lo, int(centre-radius)-2); j < min(a.Hi, int(centre+radius)+3); j++ {
			if w := 1 - math.Abs(float64(j)+0.5-centre)/radius; w > 0 {
				m[i][j] = w
				sum += w
			}
		}
		for j := range m[i] {
			m[i][j] /= sum
		}
	}
	return m
}

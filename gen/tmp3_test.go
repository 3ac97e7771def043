package gen

import "testing"

func TestTmp3(t *testing.T) {
	r := rng(1)
	for name, m := range map[string]map[int]int{"1": {1: 110}, "2": {2: 110}, "4": {4: 110}, "8": {8: 110}} {
		tl := newTile(&r, m)
		ss := 0
		for y := range tl {
			for x := range tl[y] {
				ss += int(tl[y][x]) * int(tl[y][x])
			}
		}
		var e jpegCoder
		for _, amt := range []int{6, 8, 12, 16, 24, 32} {
			var c canvas
			c.resize(500, 375)
			for y := range c.h {
				c.fill(y, 0, c.w, tone{128, 100, 100})
				c.texture(y, 0, c.w, &tl[y], 0, amt)
			}
			out := e.encode(nil, 500, 375, c.planes(), jpegStyle{quality: 90})
			t.Logf("cell %s amount %d sigma %.1f: %d", name, amt, float64(isqrt(ss/1024/1024)*amt)/128, len(out))
		}
	}
}

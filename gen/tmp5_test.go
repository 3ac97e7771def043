package gen

import (
	"fmt"
	"os"
	"testing"
)

func BenchmarkCity(b *testing.B) {
	ts := newTiles(1)
	p := &painter{tiles: ts}
	var e pngCoder
	for _, lvl := range []int{-2, 1, 2, 3, 4, 5, 6} {
		b.Run(fmt.Sprint(lvl), func(b *testing.B) {
			var out, rgb []byte
			i, total := 0, 0
			t1 := 0.
			for b.Loop() {
				p.cityscape(1, i)
				rgb = p.rgb(rgb[:0])
				t0 := cpu()
				out = e.encode(out[:0], p.w, p.h, rgb, pngStyle{color: 2, depth: 8, level: lvl})
				if i < 3 {
					os.WriteFile(fmt.Sprintf("/tmp/genout/c%d.png", i), out, 0o644)
				}
				i++
				total += len(out)
				t1 += cpu() - t0
			}
			b.ReportMetric((t1)*1000/float64(i), "cpu-ms/img")
			b.ReportMetric(float64(total)/float64(i), "bytes")
		})
	}
}

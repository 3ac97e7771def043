package gen

import (
	"fmt"
	"os"
	"testing"
)

func TestTmp2(t *testing.T) {
	ts := newTiles(1)
	p := &painter{tiles: ts}
	var e jpegCoder
	os.MkdirAll("/tmp/genout", 0o755)
	sum := [6]int{}
	n := 120
	for i := range n {
		p.photo(1, i, 500, 375)
		out := e.encode(nil, 500, 375, p.planes(), jpegStyle{quality: 90})
		sum[i%6] += len(out)
		if i < 36 {
			os.WriteFile(fmt.Sprintf("/tmp/genout/%02d.jpg", i), out, 0o644)
		}
	}
	for i := range sum {
		t.Log(i, sum[i]*6/n)
	}
}

func BenchmarkPaint(b *testing.B) {
	ts := newTiles(1)
	p := &painter{tiles: ts}
	for s := range scenes {
		b.Run(fmt.Sprint(s), func(b *testing.B) {
			i := s
			for b.Loop() {
				p.photo(1, i, 500, 375)
				i += 6
			}
		})
	}
	b.Run("street2048", func(b *testing.B) {
		for b.Loop() {
			p.photo(1, 5, 2048, 1024)
		}
	})
	b.Run("tiles", func(b *testing.B) {
		for b.Loop() {
			newTiles(1)
		}
	})
}

package gen

import (
	"syscall"
	"testing"
)

func cpu() float64 {
	var u syscall.Rusage
	syscall.Getrusage(0, &u)
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

func BenchmarkPhoto(b *testing.B) {
	ts := newTiles(1)
	p := &painter{tiles: ts}
	var e jpegCoder
	var out []byte
	i, total := 0, 0
	t0 := cpu()
	for b.Loop() {
		p.photo(1, i, 500, 375)
		out = e.encode(out[:0], 500, 375, p.planes(), jpegStyle{quality: 90})
		i++
		total += len(out)
	}
	b.ReportMetric((cpu()-t0)*1000/float64(i), "cpu-ms/img")
	b.ReportMetric(float64(total)/float64(i), "bytes")
}

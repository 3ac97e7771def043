package layout

import "testing"

// TestNothingIsAllocated in the steady state; a sheet takes two small tables.
func TestNothingIsAllocated(t *testing.T) {
	s := Spec{N: 2, H: 9, W: 40, C: 3, DType: Float16, Order: NCHW}
	c, floats, pixels := floatBatch(t, s, imagenet)
	name, sheet := make([]byte, 0, 64), make([]byte, Size(PNG, s))
	header, small, m := make([]byte, DataOffset(SafeTensors, s)+Page), make([]byte, 0, Size(Sizes, s)), metaFor(s.N)
	allowed := map[string]float64{"sheet": 2}
	works := map[string]func(){
		"npy":         func() { PutHeader(NPY, s, header, m) },
		"safetensors": func() { PutHeader(SafeTensors, s, header, m) },
		"labels":      func() { AppendNPY(small, Labels, s, m) },
		"sizes":       func() { AppendNPY(small, Sizes, s, m) },
		"valid":       func() { AppendNPY(small, Valid, s, m) },
		"names": func() {
			name = noArrays.AppendName(name[:0], 123456, Labels)
			noArrays.ParseBatchName("batch-123456.labels.npy")
		},
		"sheet": func() { c.PutSheet(sheet, s, floats, 2, nil) },
		"size": func() {
			for f := range NumForms {
				Size(f, s)
			}
		},
	}
	for _, k := range kernels() {
		works["turn "+k.String()] = func() {
			for _, channels := range []int{3, 4} {
				turn(k, NCHW, floats, pixels, 100, channels, 4)
				turn(k, NHWC, floats, pixels, 100, channels, 2)
			}
		}
	}
	for d := Uint8; d <= Float32; d++ {
		s := s
		s.DType = d
		for _, w := range newWriters(t, s, normFor(s)) {
			slot := make([]byte, s.SampleBytes())
			works["write "+d.String()+" "+w.kernel.String()] = func() {
				w.Begin(slot, s, 8, 33, true, 5)
				w.putRows(0, 7, pixels, 99)
				w.PutRow(7, pixels)
				w.End()
				w.convert.Fill(slot, s, 3)
			}
		}
	}
	for what, work := range works {
		if n := testing.AllocsPerRun(20, work); n > allowed[what] {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}

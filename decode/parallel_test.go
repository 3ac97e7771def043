package decode

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
)

// TestDecodersInParallel: nothing of one decoder's images reaches another's.
func TestDecodersInParallel(t *testing.T) {
	all := allSamples()
	one := func(d *Decoder, s *sample) ([]byte, error) {
		h := headerOf(s.data)
		dst := Image{Pix: make([]byte, s.w*s.h*3), Stride: s.w * 3, Height: s.h, Width: s.w}
		return dst.Pix, d.Decode(dst, s.data, h)
	}
	d := NewDecoder(Options{})
	defer d.Close()
	var want [][]byte
	for i := range all {
		pix, _ := one(d, &all[i])
		want = append(want, pix)
	}
	var workers sync.WaitGroup
	failures := make(chan string, 4)
	for w := range cap(failures) {
		workers.Go(func() {
			d := NewDecoder(Options{})
			defer d.Close()
			for k := range all {
				i := (k + w*37) % len(all)
				if pix, err := one(d, &all[i]); !bytes.Equal(pix, want[i]) {
					failures <- fmt.Sprintf("%s: other pixels, %v", all[i].name, err)
					return
				}
			}
		})
	}
	workers.Wait()
	close(failures)
	for f := range failures {
		t.Error(f)
	}
}

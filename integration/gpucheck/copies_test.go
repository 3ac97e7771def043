package gpucheck

import "testing"

// TestCopies: the bytes that are copied to the GPU are those that readers of host memory get,
// whether processors or the GPU decode.
func TestCopies(t *testing.T) {
	device := theGPU(t)
	for _, decoder := range []string{"off", "exact"} {
		t.Run(decoder, func(t *testing.T) {
			m := mounted(t, device, "--gpu-decode", decoder)
			if err := same(device, m.Batch(0, 0, 0), m.Batch(0, 1, 0), m.Batch(0, 2, 0)); err != nil {
				t.Error(err)
			}
		})
	}
}

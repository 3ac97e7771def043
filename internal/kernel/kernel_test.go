package kernel

import (
	"slices"
	"testing"
)

func TestKernels(t *testing.T) {
	if all := UpTo(SSSE3); !slices.Equal(all, []Kernel{None, Portable, SSSE3}) {
		t.Errorf("up to SSSE3: %v", all)
	}
	for k, want := range map[Kernel]Kernel{Fastest: AVX2, Pure: None, None: None, Portable: Portable, AVX2: AVX2, AVX512: AVX2} {
		if got := k.AtMost(AVX2); got != want {
			t.Errorf("%s is %s", k, got)
		}
	}
}

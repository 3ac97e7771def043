package keep

import "testing"

// TestAlmostWhole: a network reports if an almost whole value became another number.
func TestAlmostWhole(t *testing.T) {
	good := 0
	for seed := range uint64(400) {
		value := one * 3 / 4
		if seed%2 == 0 {
			value = one / 4
		}
		n := network{nodes: 3, near: one/4 + 1, scratch: &scratch{from: onHeap{}}}
		for v := range int32(3) { // only one of the arcs is no edge
			n.add(v, (v+1)%3, []int32{-1, v}[min((v+int32(seed/2))%3, 1)], value)
		}
		got := n.round(newCoin(seed, 0))
		if got != (n.value[0] == one == (seed%2 == 1)) {
			t.Errorf("seed %d: %d of %d becomes %d, and is that good: %t", seed, value, one, n.value[0], got)
		}
		if got {
			good++
		}
	}
	if good < 260 || good > 340 {
		t.Errorf("%d of 400 are good", good)
	}
}

package pinned

import "testing"

// BenchmarkGet measures the cost of a batch apart from its pixels, when a buffer is reused while
// readers see others.
func BenchmarkGet(b *testing.B) {
	for name, seen := range map[string]int{"alone": 0, "beside 5000": 5000} {
		b.Run(name, func(b *testing.B) {
			f := newFault()
			p := NewPool(newStore(fakeRoot, f), &budget{limit: 1 << 40}, PoolOptions{})
			var held []*Buffer
			for range seen + 1 {
				x, err := p.Get(1)
				if err != nil {
					b.Fatal(err)
				}
				held = append(held, x)
			}
			for i, x := range held {
				f.see(x, i < seen)
				x.Release()
			}
			for b.Loop() {
				x, err := p.Get(1)
				if err != nil {
					b.Fatal(err)
				}
				x.Release()
			}
		})
	}
}

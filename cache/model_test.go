package cache

import (
	"math/rand/v2"
	"testing"
)

// FuzzPlan drives a cache of policy Constant through reads in any order, of any epoch, and
// compares it with a model that has unlimited memory, as long as everything fits.
func FuzzPlan(f *testing.F) {
	f.Add([]byte{0, 1, 2, 16, 17, 18, 33, 34, 0x8f, 0xf3})
	f.Add([]byte("the plan says what is kept, by any reader, and in which order"))
	for seed := range uint64(30) {
		steps, rng := make([]byte, 400), rand.New(rand.NewPCG(seed, 2))
		for i := range steps {
			steps[i] = byte(i/40+rng.IntN(3))<<4 | byte(rng.IntN(16)) // readers at three epochs, which go on
		}
		f.Add(steps)
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		const n = 16
		keep := func(epoch int, id int64) bool { return (int64(epoch)*5+id*id)%3 == 0 }
		c := open(t, Options{Policy: Constant, Limit: 1 << 20, Samples: n, Plan: planFunc(keep)})
		defer c.Close()
		waits := map[int64]int{} // sample -> the epoch it waits for
		changed := map[int64]int64{}
		for _, step := range steps {
			epoch, id := int(step>>4), int64(step&15)
			s := Stamp{Size: 1 + id*700, ModTime: changed[id]}
			if epoch == 15 {
				changed[id]++
				continue
			}
			w, held := waits[id]
			if held && w>>8 != int(s.ModTime) {
				held = false // another version, which is evicted
				delete(waits, id)
			}
			w &= 255
			if hit := read(t, c, epoch, id, s); hit != held {
				t.Fatalf("epoch %d, sample %d: hit %t, held %t", epoch, id, hit, held)
			}
			stale := held && (w < epoch-1 || w > epoch+2)
			switch {
			case keep(epoch, id):
				if !held || stale || w <= epoch {
					waits[id] = int(s.ModTime)<<8 | (epoch + 1)
				}
			case stale || held && w == epoch:
				delete(waits, id)
			}
			if c.Holds(id) != (waits[id] != 0) {
				t.Fatalf("after epoch %d, sample %d: held %t, should wait for %d", epoch, id, c.Holds(id), waits[id])
			}
		}
		if err := check(c); err != nil {
			t.Fatal(err)
		}
		if got := c.Stats().Samples; got != int64(len(waits)) {
			// The cache may still hold a version that was not requested since the file changed.
			t.Fatalf("%d samples are held, %d should", got, len(waits))
		}
	})
}

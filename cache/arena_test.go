package cache

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(entry{}); n != entryBytes {
		t.Errorf("an entry takes %d bytes, not %d", n, entryBytes)
	}
	if n := unsafe.Sizeof(pageLinks{}); n != pageMeta {
		t.Errorf("the links of a page take %d bytes, not %d", n, pageMeta)
	}
}

// TestArena takes and releases chains at random and compares every chain with what was written
// to it.
func TestArena(t *testing.T) {
	for _, page := range []int{4096, 16384} {
		a, err := newArena(300, page)
		if err != nil {
			t.Fatal(err)
		}
		defer a.close()
		type taken struct {
			chain
			id   int64
			size int64
		}
		rng := rand.New(rand.NewPCG(1, uint64(page)))
		var all []taken
		refused, scattered := 0, 0
		for id := range int64(2000) {
			size := rng.Int64N(int64(page) / 2)
			if rng.IntN(3) == 0 {
				size = rng.Int64N(int64(20 * page))
			}
			s := Stamp{Size: size}
			short, possible := a.short(size)
			pages, crumbs := shape(size, page)
			if !possible {
				if pages, crumbs, possible = a.scattered(size); possible {
					scattered++
				}
			} else if err := a.warmUp(short); err != nil {
				t.Fatal(err)
			}
			if possible {
				c := a.take(pages, crumbs)
				a.write(c, content(id, s))
				all = append(all, taken{c, id, size})
			} else {
				refused++
			}
			for !possible && len(all) > 0 || len(all) > 0 && rng.IntN(3) == 0 {
				possible = true
				k := rng.IntN(len(all))
				x := all[k]
				got := make([]byte, x.size)
				a.read(x.chain, got)
				if at := verify(got, x.id, Stamp{Size: x.size}); at >= 0 {
					t.Fatalf("sample %d of %d bytes is wrong from byte %d on", x.id, x.size, at)
				}
				a.release(x.chain)
				all[k] = all[len(all)-1]
				all = all[:len(all)-1]
			}
			if rng.IntN(50) == 0 {
				pages := a.detach(rng.IntN(100))
				a.forget(pages)
				a.attach(pages)
			}
		}
		if refused == 0 || scattered == 0 || a.cold.n == 0 && a.fresh < len(a.pages) {
			t.Error("the arena was never full")
		}
		for _, x := range all {
			a.release(x.chain)
		}
		if a.warm.n+a.cold.n != a.fresh-1 || a.nFree != 0 || a.crumbs != 0 {
			t.Errorf("%d warm and %d cold pages of %d, %d free crumbs, when nothing is taken", a.warm.n, a.cold.n, a.fresh-1, a.nFree)
		}
	}
}

// TestForgottenPagesAreZero: memory that was returned to the system reads as fresh memory.
func TestForgottenPagesAreZero(t *testing.T) {
	a, err := newArena(8, systemPage)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	if err := a.warmUp(8); err != nil {
		t.Fatal(err)
	}
	c := a.take(8, 0)
	a.write(c, content(1, Stamp{Size: int64(8 * systemPage)}))
	a.release(c)
	cold := a.detach(3)
	if a.forget(cold); len(cold) != 3 {
		t.Fatalf("%d pages went back", len(cold))
	}
	for _, p := range cold {
		for _, b := range a.bytesOf(p) {
			if b != 0 {
				t.Fatalf("page %d still holds something", p)
			}
		}
	}
	a.attach(cold)
	if n, possible := a.short(int64(8 * systemPage)); n != 3 || !possible {
		t.Errorf("%d pages are without memory", n)
	}
}

package pages_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/batchfs/batchfs/internal/pages"
	"github.com/batchfs/batchfs/internal/testkit"
)

// account is a budget with a limit.
type account struct{ used, limit atomic.Int64 }

func (a *account) Reserve(n int64) bool {
	if a.used.Add(n) > a.limit.Load() {
		a.used.Add(-n)
		return false
	}
	return true
}

func (a *account) Release(n int64) { a.used.Add(-n) }

const size = 10_000 // of a page; it takes three pages of the system

// open makes a cache. At the end of the test everything must be released.
func open(t *testing.T, o pages.Options, limit int64) (*pages.Cache, *account) {
	t.Helper()
	a := &account{}
	a.limit.Store(limit)
	o.Budget = a
	c, err := pages.New(o)
	testkit.Must(t, err)
	t.Cleanup(func() {
		c.Close()
		if s := c.Stats(); a.used.Load() != 0 || s.Pages != 0 || s.Reserved != 0 {
			t.Errorf("at the end %d bytes are charged: %+v", a.used.Load(), s)
		}
	})
	return c, a
}

func key(i int) pages.Key { return pages.Key{Object: int32(i / 10), Offset: int64(i%10) << 20} }

func content(i int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8), 7, 9}, size/4) }

// use reads a page for sample use of uses in an epoch, and says whether it had to be loaded.
func use(t *testing.T, c *pages.Cache, i, epoch, use, uses int) (loaded bool) {
	t.Helper()
	p, mine, err := c.Get(t.Context(), key(i), size, uses, func(to []byte) error {
		copy(to, content(i))
		return nil
	})
	if err != nil {
		t.Errorf("page %d: %v", i, err)
		return true
	}
	if !bytes.Equal(p.Bytes(), content(i)) {
		t.Errorf("page %d is another one", i)
	}
	p.Release(epoch, use)
	return mine
}

// TestKeptUntilSpent: pages without holders are kept; with Once, until all of their samples were
// read, in any order, and again in the next epoch, even if the previous one was not completed, or
// is the same. Where two epochs overlap, a page is kept until the later one has read all samples.
func TestKeptUntilSpent(t *testing.T) {
	type read struct{ epoch, sample int }
	for name, c := range map[string]struct {
		reads        []read
		loads, spent []int // by the number of the read; without Once, only the first one loads
	}{
		"one after the other": {
			[]read{{0, 2}, {0, 0}, {0, 1}, {1, 0}, {1, 1}, {1, 2}, {2, 1}, {2, 0}, {3, 1}, {3, 2}, {3, 0}},
			[]int{0, 3, 6}, []int{2, 5, 10},
		},
		"the same again": {[]read{{4, 2}, {4, 0}, {4, 1}, {4, 0}, {4, 1}, {4, 0}, {4, 1}, {4, 2}}, []int{0, 3}, []int{2, 7}},
		"overlapping":    {[]read{{0, 0}, {1, 1}, {0, 2}, {0, 1}, {1, 0}, {1, 2}, {2, 0}}, []int{0, 6}, []int{5}},
		"going back":     {[]read{{9, 0}, {3, 1}, {3, 2}, {3, 0}, {4, 0}}, []int{0, 4}, []int{3}},
	} {
		for _, once := range []bool{false, true} {
			all, _ := open(t, pages.Options{Limit: 1 << 20, Once: once}, 16<<20)
			var loads []int
			for at, r := range c.reads {
				if use(t, all, 1, r.epoch, r.sample, 3) {
					loads = append(loads, at)
				}
				for once && slices.Contains(c.spent, at) && all.Stats().Pages > 0 { // ristretto drops it soon
					runtime.Gosched()
				}
			}
			want := c.loads
			if !once {
				want = []int{0}
			}
			if !slices.Equal(loads, want) {
				t.Errorf("%s, once %t: loaded at %d, not %d", name, once, loads, want)
			}
		}
	}
}

// TestKeepsNothingSingle: with Once, a page that only one sample is read from is not kept.
func TestKeepsNothingSingle(t *testing.T) {
	once, _ := open(t, pages.Options{Limit: 1 << 20, Once: true}, 16<<20)
	other, _ := open(t, pages.Options{Limit: 1 << 20}, 16<<20)
	if once.Keeps(1) || !once.Keeps(2) || !other.Keeps(1) || (*pages.Cache)(nil).Keeps(2) {
		t.Error("wrong pages are kept")
	}
}

// TestLoadsAreShared: callers that want a page during its loading wait and share the result: the
// page, even if ristretto keeps none at all, or the error.
func TestLoadsAreShared(t *testing.T) {
	for _, fails := range []error{nil, errors.New("a fault")} {
		c, _ := open(t, pages.Options{Limit: 1}, 16<<20)
		const readers = 20
		var loads atomic.Int64
		var wait sync.WaitGroup
		for range readers {
			wait.Go(func() {
				p, _, err := c.Get(t.Context(), key(3), size, 1, func(to []byte) error {
					loads.Add(1)
					for c.Stats().Served < readers-1 {
						runtime.Gosched()
					}
					copy(to, content(3))
					return fails
				})
				if err != fails { // the very one
					t.Errorf("%v, not %v", err, fails)
				}
				if err == nil {
					if !bytes.Equal(p.Bytes(), content(3)) {
						t.Error("it is another page")
					}
					p.Release(0, 0)
				}
			})
		}
		wait.Wait()
		if loads.Load() != 1 {
			t.Errorf("%d loads", loads.Load())
		}
	}
}

// TestRefusedAreCounted: pages that ristretto refuses are freed, and counted.
func TestRefusedAreCounted(t *testing.T) {
	c, a := open(t, pages.Options{Limit: 1}, 16<<20)
	empty := a.used.Load()
	for range 3 {
		if !use(t, c, 1, 0, 0, 5) {
			t.Error("ristretto kept what is larger than its limit")
		}
		for c.Stats().Pages > 0 { // it decides soon
			runtime.Gosched()
		}
	}
	if s := c.Stats(); s.Refused != 3 || s.Loaded != 3 || a.used.Load() != empty {
		t.Errorf("%+v, %d bytes", s, a.used.Load()-empty)
	}
}

// TestHeldPagesStay: a held page stays, whatever gives way, and even when the cache is closed; the
// account is right.
func TestHeldPagesStay(t *testing.T) {
	c, a := open(t, pages.Options{Limit: 1 << 20}, 16<<20)
	empty := a.used.Load()
	load := func(i int) func([]byte) error {
		return func(to []byte) error { copy(to, content(i)); return nil }
	}
	held, _, err := c.Get(t.Context(), key(1), size, 1, load(1))
	testkit.Must(t, err)
	use(t, c, 2, 0, 0, 1)
	if n := c.Trim(1 << 30); n != 12288 {
		t.Errorf("%d bytes gave way, of one page that nobody holds", n)
	}
	a.limit.Store(a.used.Load())
	if _, _, err := c.Get(t.Context(), key(4), size, 1, load(4)); !errors.Is(err, pages.ErrNoRoom) || c.Stats().NoRoom != 1 {
		t.Errorf("a page without room: %v, %+v", err, c.Stats())
	}
	c.Close()
	if !bytes.Equal(held.Bytes(), content(1)) || a.used.Load() == 0 || a.used.Load() >= empty {
		t.Errorf("%d bytes after Close", a.used.Load())
	}
	held.Release(0, 0)
}

// TestMakesRoom: if the account has room for few pages, others give way to each new one.
func TestMakesRoom(t *testing.T) {
	c, a := open(t, pages.Options{Limit: 1 << 20}, 16<<20)
	a.limit.Store(a.used.Load() + 3*12288)
	for i := range 50 {
		use(t, c, i, 0, 0, 2)
	}
	if s := c.Stats(); s.NoRoom != 0 || s.Loaded != 50 {
		t.Errorf("%+v", s)
	}
}

// TestWaitingEnds: the end of its context ends one reader's wait, and no other's.
func TestWaitingEnds(t *testing.T) {
	c, _ := open(t, pages.Options{Limit: 1 << 20}, 16<<20)
	begun, gate := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		p, mine, err := c.Get(context.Background(), key(1), size, 1, func([]byte) error {
			close(begun)
			<-gate
			return nil
		})
		if err != nil || !mine {
			t.Errorf("%t, %v", mine, err)
			return
		}
		p.Release(0, 0)
	})
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, mine, err := c.Get(ctx, key(1), size, 1, nil); err != context.Canceled || mine { // the very one
		t.Errorf("%t, %v", mine, err)
	}
	close(gate)
	wait.Wait()
}

// TestAPanicStopsNobody: callers that wait for a load get an error if it panics.
func TestAPanicStopsNobody(t *testing.T) {
	c, _ := open(t, pages.Options{Limit: 1 << 20}, 16<<20)
	begun := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		defer func() { _ = recover() }()
		_, _, _ = c.Get(t.Context(), key(1), size, 1, func([]byte) error {
			close(begun)
			for c.Stats().Served == 0 {
				runtime.Gosched()
			}
			panic("a bug")
		})
	})
	<-begun
	if _, _, err := c.Get(t.Context(), key(1), size, 1, nil); !errors.Is(err, pages.ErrGivenUp) {
		t.Error(err)
	}
	wait.Wait()
	use(t, c, 1, 0, 0, 1)
}

// TestEverythingAtOnce: many readers, little room, pages that give way all the time, and faults:
// every page is right, and in the end nothing is charged.
func TestEverythingAtOnce(t *testing.T) {
	for _, once := range []bool{false, true} {
		c, a := open(t, pages.Options{Limit: 20 * 12288, Pages: 60, Once: once}, 16<<20)
		a.limit.Store(a.used.Load() + 25*12288)
		fault := errors.New("a fault")
		var readers, trimmer sync.WaitGroup
		done := make(chan struct{})
		trimmer.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					c.Trim(12288)
					runtime.Gosched()
				}
			}
		})
		for r := range 8 {
			readers.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(r), 1))
				for range 2000 {
					i, sample := rng.IntN(60), rng.IntN(4)
					fails := rng.IntN(20) == 0
					p, _, err := c.Get(t.Context(), key(i), size, 4, func(to []byte) error {
						copy(to, content(i))
						if fails {
							return fault
						}
						return nil
					})
					switch {
					case errors.Is(err, fault), errors.Is(err, pages.ErrNoRoom):
					case err != nil:
						t.Error(err)
					default:
						if !bytes.Equal(p.Bytes(), content(i)) {
							t.Errorf("page %d is another one", i)
						}
						p.Release(0, sample)
					}
				}
			})
		}
		readers.Wait()
		close(done)
		trimmer.Wait()
		t.Logf("once %t: %+v", once, c.Stats())
	}
}

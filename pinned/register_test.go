package pinned

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/batchfs/batchfs/internal/testkit"
)

// registrar notes what is registered.
type registrar struct {
	t      *testing.T
	now    map[uintptr]int
	events []string
	fail   error
}

func (r *registrar) Register(m []byte) error {
	if r.fail != nil {
		return r.fail
	}
	r.now[uintptr(unsafe.Pointer(&m[0]))] = len(m)
	r.events = append(r.events, fmt.Sprint("register ", int64(len(m))/pageSize))
	return nil
}

func (r *registrar) Unregister(m []byte) {
	at := uintptr(unsafe.Pointer(&m[0]))
	if r.now[at] != len(m) {
		r.t.Errorf("%d bytes are unregistered of %d", len(m), r.now[at])
	}
	delete(r.now, at)
	r.events = append(r.events, fmt.Sprint("unregister ", int64(len(m))/pageSize))
}

// TestRegistered: a buffer is registered once, and again only after its pages have changed. It is
// unregistered before its pages change or go.
func TestRegistered(t *testing.T) {
	for name, store := range map[string]*Store{"files": NewStore(1 << 30), "anonymous": NewAnonymousStore()} {
		t.Run(name, func(t *testing.T) {
			r := &registrar{t: t, now: map[uintptr]int{}}
			p := NewPool(store, &budget{limit: 1 << 30}, PoolOptions{Registrar: r})
			use := func(pages int64, registered int) {
				t.Helper()
				b, err := p.Get(pages*pageSize - 5)
				testkit.Must(t, err)
				for range registered {
					testkit.Must(t, b.Register())
				}
				p.Trim() // while it is in use
				b.Release()
			}
			use(4, 0)
			use(4, 2)
			use(4, 1)
			use(3, 2)
			use(3, 1)
			use(4, 0)
			use(4, 1)
			// Whether growth or Register unregisters depends on whether the memory is mapped anew.
			want := []string{"register 4", "unregister 4", "register 3", "unregister 3", "register 4"}
			if !slices.Equal(r.events, want) {
				t.Errorf("%v, want %v", r.events, want)
			}
			p.Close()
			if len(r.now) != 0 {
				t.Errorf("%d registrations are left: %v", len(r.now), r.events)
			}
		})
	}
}

func TestRegistrarRefuses(t *testing.T) {
	r := &registrar{t: t, fail: errors.New("no")}
	p := NewPool(NewAnonymousStore(), &budget{limit: 1 << 30}, PoolOptions{Registrar: r})
	defer p.Close()
	b, err := p.Get(1)
	testkit.Must(t, err)
	if err := b.Register(); !errors.Is(err, r.fail) {
		t.Error(err)
	}
	b.Release()
}

// sleeper is a registrar that does not unregister memory while awake is open.
type sleeper struct{ awake chan struct{} }

func (s sleeper) Register([]byte) error { return nil }
func (s sleeper) Unregister([]byte)     { <-s.awake }

// TestRegistrarHangs: memory that a registrar does not unregister is neither freed nor used, and
// delays others once, briefly.
func TestRegistrarHangs(t *testing.T) {
	for name, makeStore := range map[string]func() *Store{"files": func() *Store { return NewStore(1 << 30) }, "anonymous": NewAnonymousStore} {
		synctest.Test(t, func(t *testing.T) {
			s, used, began := sleeper{make(chan struct{})}, &budget{limit: 100 * pageSize}, time.Now()
			p := NewPool(makeStore(), used, PoolOptions{Registrar: s})
			get := func(pages int64) *Buffer {
				t.Helper()
				b, err := p.Get(pages * pageSize)
				if err != nil {
					t.Fatal(name, err)
				}
				if err := b.Register(); err != nil {
					t.Fatal(name, err)
				}
				return b
			}
			for _, b := range []*Buffer{get(8), get(9), get(10)} {
				b.Release()
			}
			b := get(7) // each of the three is tried, and none can be shortened
			if s := p.Stats(); s.Leaving != 3 || s.Reserved != 34*pageSize || used.used != 34*pageSize {
				t.Errorf("%s: %+v, %d bytes are charged", name, s, used.used)
			}
			b.Release()
			if freed := p.Trim(); freed != 0 || p.Stats().Leaving != 4 {
				t.Errorf("%s: %d bytes freed, %+v", name, freed, p.Stats())
			}
			p.Close()
			if took := time.Since(began); took != registrarWait {
				t.Errorf("%s: others waited for %v", name, took)
			}
			close(s.awake)
			synctest.Wait()
			if s := p.Stats(); s.Leaving != 0 || s.Reserved != 0 || used.used != 0 {
				t.Errorf("%s: %+v, %d bytes are charged", name, s, used.used)
			}
		})
	}
}

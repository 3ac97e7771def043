package pinned

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"unsafe"
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

// TestRegistered: a buffer is registered once, and again only when its pages have changed; before
// they change or go, it is unregistered.
func TestRegistered(t *testing.T) {
	for name, store := range map[string]*Store{"files": NewStore(1 << 30), "anonymous": NewAnonymousStore()} {
		t.Run(name, func(t *testing.T) {
			r := &registrar{t: t, now: map[uintptr]int{}}
			p := NewPool(store, &budget{limit: 1 << 30}, PoolOptions{Registrar: r})
			use := func(pages int64, registered int) {
				t.Helper()
				b, err := p.Get(pages*pageSize - 5)
				if err != nil {
					t.Fatal(err)
				}
				for range registered {
					if err := b.Register(); err != nil {
						t.Fatal(err)
					}
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
			// Whether growth unregisters, or Register, depends on whether the memory is mapped anew.
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
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Register(); !errors.Is(err, r.fail) {
		t.Error(err)
	}
	b.Release()
}

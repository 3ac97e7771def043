package pinned

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// A view is what a reader keeps of a batch after the daemon has released it.
type view struct {
	fd    int // -1: only the mapping is kept
	bytes []byte
	stamp uint64
}

func see(b *Buffer, stamp uint64, keepOpen bool) (view, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", b.Fd()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return view{}, err
	}
	v := view{fd: fd, stamp: stamp}
	if v.bytes, err = unix.Mmap(fd, 0, len(b.Bytes()), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return v, err
	}
	if !keepOpen {
		v.fd, err = -1, unix.Close(fd)
	}
	return v, err
}

// stamp fills a buffer with a number.
func stamp(p []byte, v uint64) {
	for ; len(p) >= 8; p = p[8:] {
		binary.NativeEndian.PutUint64(p, v)
	}
}

// end checks that the reader still sees the same bytes, and closes the view.
func (v view) end() error {
	var err error
	for at := 0; at+8 <= len(v.bytes); at += 8 {
		if got := binary.NativeEndian.Uint64(v.bytes[at:]); got != v.stamp {
			err = fmt.Errorf("a reader of batch %d sees %d at byte %d", v.stamp, got, at)
			break
		}
	}
	err = errors.Join(err, unix.Munmap(v.bytes))
	if v.fd >= 0 {
		err = errors.Join(err, unix.Close(v.fd))
	}
	return err
}

// TestReadersKeepTheirBytes makes batches of random sizes in several goroutines, while readers hold
// some of the files open or mapped long after their release, and other goroutines trim and inspect
// the pool. The pool's accounts agree with the budget.
func TestReadersKeepTheirBytes(t *testing.T) {
	eachPool(t, 4*miB, PoolOptions{Growth: 1.5}, keepBytes)
}

func keepBytes(t *testing.T, p *Pool, budget *budget) {
	var stamps atomic.Uint64
	var makers, others sync.WaitGroup
	done := make(chan struct{})
	for seed := range uint64(4) {
		makers.Go(func() {
			if err := makeAndSee(p, rand.New(rand.NewPCG(seed, 3)), &stamps); err != nil {
				t.Error(err)
			}
		})
	}
	others.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			p.Trim()
			if st := p.Stats(); st.Real < 0 || st.Reserved < 0 {
				t.Errorf("impossible: %+v", st)
			}
		}
	})
	makers.Wait()
	close(done)
	others.Wait()
	if seen := seen(p); seen != 0 || p.Stats().Reserved != budget.charged() {
		t.Errorf("%d bytes are seen by nobody; %d charged, stats %+v", seen, budget.charged(), p.Stats())
	}
}

// makeAndSee makes 300 batches. A reader keeps a view of every second one while about the next
// eight are made.
func makeAndSee(p *Pool, r *rand.Rand, stamps *atomic.Uint64) error {
	var views []view
	drop := func(n int) error {
		var err error
		for ; n > 0 && len(views) > 0; n-- {
			i := r.IntN(len(views))
			err = errors.Join(err, views[i].end())
			views = append(views[:i], views[i+1:]...)
		}
		return err
	}
	for range 300 {
		size := 8 * (1 + r.Int64N(16*pageSize/8))
		b, err := p.Get(size)
		if errors.Is(err, ErrNoMemory) {
			if err := drop(len(views)); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return errors.Join(err, drop(len(views)))
		}
		mark := stamps.Add(1)
		stamp(b.Bytes(), mark)
		if r.IntN(2) == 0 && b.Fd() >= 0 {
			v, err := see(b, mark, r.IntN(2) == 0)
			if err != nil {
				return err
			}
			views = append(views, v)
		}
		b.Release()
		if len(views) > 8 {
			if err := drop(1 + r.IntN(4)); err != nil {
				return err
			}
		}
	}
	return drop(len(views))
}

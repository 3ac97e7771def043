package pinned

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

// poolRules says what one buffer holds, in pages, after each of a sequence of batches.
var poolRules = []struct {
	name   string
	growth float64
	pages  [][2]float64 // requested, held
}{
	{"only what is asked", 0, [][2]float64{{0, 0}, {0.5, 1}, {1, 1}, {1.5, 2}, {100, 100}}},
	{"never less", 1, [][2]float64{{100, 100}, {99.5, 100}, {1, 100}, {0, 100}, {100, 100}, {101, 101}, {50, 101}}},
	{"the first has no margin", 1.5, [][2]float64{{100, 100}}},
	{"growth beyond what is asked", 1.5, [][2]float64{{100, 100}, {101, 150}, {150, 150}, {151, 225}, {3, 225}}},
	{"growth less than what is asked", 1.5, [][2]float64{{100, 100}, {200, 200}}},
	{"growth in whole pages", 1.25, [][2]float64{{10, 10}, {11, 13}}},
	{"no room for a margin", 2, [][2]float64{{700, 700}, {701, 701}}},
}

func eachPool(t *testing.T, limit int64, o PoolOptions, test func(t *testing.T, p *Pool, b *budget)) {
	eachStore(t, limit, func(t *testing.T, plain *Pool, b *budget) {
		o.Name = "batch"
		p := NewPool(plain.store, b, o)
		test(t, p, b)
		p.Close()
	})
}

func TestPoolRules(t *testing.T) {
	for _, c := range poolRules {
		t.Run(c.name, func(t *testing.T) {
			eachPool(t, 720*pageSize, PoolOptions{Growth: c.growth}, func(t *testing.T, p *Pool, budget *budget) {
				for i, step := range c.pages {
					size, held := int64(step[0]*float64(pageSize)), int64(step[1])*pageSize
					b := get(t, p, size)
					checkHeld(t, b, held)
					write(b, byte(i))
					if b.Fd() >= 0 {
						checkFile(t, b)
					}
					st := p.Stats()
					if budget.charged() != held || st.Reserved != held || st.Real != size || st.Buffers != 1 {
						t.Fatalf("step %d: %d bytes charged, stats %+v, want %d", i, budget.charged(), st, held)
					}
					b.Release()
				}
			})
		})
	}
}

func write(b *Buffer, v byte) {
	for i := range b.Bytes() {
		b.Bytes()[i] = byte(i)*7 + v
	}
}

// checkHeld compares what a buffer claims to hold with the kernel's figures.
func checkHeld(t *testing.T, b *Buffer, want int64) {
	t.Helper()
	got := int64(len(b.mapping))
	if b.fd >= 0 {
		var st unix.Stat_t
		testkit.Must(t, unix.Fstat(b.fd, &st))
		got = st.Blocks * 512
	}
	if b.held != want || got != want {
		t.Fatalf("%d bytes are held, the kernel says %d, want %d", b.held, got, want)
	}
}

// TestTrimTakesSpareMemory: Trim frees spare memory of buffers in use, whose bytes stay, and of
// buffers that readers see.
func TestTrimTakesSpareMemory(t *testing.T) {
	eachPool(t, 1<<30, PoolOptions{}, func(t *testing.T, p *Pool, budget *budget) {
		get(t, p, 600*pageSize).Release()
		b := get(t, p, 10*pageSize-5)
		write(b, 3)
		want := bytes.Clone(b.Bytes())
		if freed := p.Trim(); freed != 590*pageSize {
			t.Errorf("Trim freed %d bytes, want %d", freed, 590*pageSize)
		}
		checkHeld(t, b, 10*pageSize)
		if !bytes.Equal(b.Bytes(), want) {
			t.Error("Trim changed a buffer in use")
		}
		if b.Fd() >= 0 {
			checkFile(t, b)
		}
		if st := p.Stats(); st.Reserved != 10*pageSize || st.MaxReserved != 600*pageSize || budget.charged() != st.Reserved {
			t.Errorf("%d bytes charged, stats %+v", budget.charged(), st)
		}
		if freed := p.Trim(); freed != 0 {
			t.Errorf("there were %d bytes more to free", freed)
		}
		b.Release()
		b = get(t, p, 600*pageSize)
		write(b, 4)
		checkHeld(t, b, 600*pageSize)
		b.Release()
		b = get(t, p, 0)
		if freed := p.Trim(); freed != 600*pageSize || b.held != 0 {
			t.Errorf("Trim freed %d bytes of an empty buffer that held %d", freed, 600*pageSize)
		}
		b.Release()
		get(t, p, pageSize).Release()
	})
}

// TestTrimOfSplicedPages: what the kernel cannot free, because a part of the same large page is in
// a pipe, stays charged.
func TestTrimOfSplicedPages(t *testing.T) {
	eachPool(t, 1<<30, PoolOptions{}, func(t *testing.T, p *Pool, budget *budget) {
		b := get(t, p, 600*pageSize)
		if b.Fd() < 0 {
			t.Skip("ordinary memory cannot be spliced")
		}
		pipe := make([]int, 2)
		testkit.Must(t, unix.Pipe2(pipe, unix.O_CLOEXEC))
		defer unix.Close(pipe[0])
		defer unix.Close(pipe[1])
		reader, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", b.Fd()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		testkit.Must(t, err)
		_, err = unix.Splice(reader, nil, pipe[1], nil, int(pageSize), 0)
		testkit.Must(t, errors.Join(err, unix.Close(reader)))
		b.Release()
		if b = get(t, p, 10*pageSize-5); b.held != 600*pageSize {
			t.Fatal("not the same buffer")
		}
		freed := p.Trim()
		t.Logf("%d bytes of spare memory are left", 590*pageSize-freed)
		checkHeld(t, b, 600*pageSize-freed)
		if used := budget.charged(); used != b.held {
			t.Errorf("%d bytes charged, but %d held", used, b.held)
		}
		_, err = unix.Read(pipe[0], make([]byte, pageSize))
		testkit.Must(t, err)
		p.Trim()
		checkHeld(t, b, 10*pageSize)
		b.Release()
	})
}

// TestPagesAreReused: a batch of the same size finds its pages unchanged, so that nothing is
// cleared, or faulted in, twice.
func TestPagesAreReused(t *testing.T) {
	eachPool(t, 1<<30, PoolOptions{}, func(t *testing.T, p *Pool, _ *budget) {
		b := get(t, p, miB)
		write(b, 5)
		want := bytes.Clone(b.Bytes())
		b.Release()
		if b = get(t, p, miB); !bytes.Equal(b.Bytes(), want) {
			t.Error("the same size was cleared")
		}
		b.Release()
		b = get(t, p, miB/2)
		b.Release()
		if b = get(t, p, miB); !bytes.Equal(b.Bytes()[:miB/2], want[:miB/2]) {
			t.Error("pages that were in use all the time were cleared")
		}
		b.Release()
	})
}

// TestSizesThatChangeLeast: among buffers that hold the same amount, the one with the nearest size
// is taken.
func TestSizesThatChangeLeast(t *testing.T) {
	eachPool(t, 1<<30, PoolOptions{}, func(t *testing.T, p *Pool, _ *budget) {
		var near *Buffer
		held := []*Buffer{get(t, p, miB), get(t, p, miB), get(t, p, miB)}
		for _, b := range held {
			b.Release()
		}
		held = []*Buffer{get(t, p, miB), get(t, p, miB/2), get(t, p, miB/4)}
		near = held[1]
		for _, b := range held {
			b.Release()
		}
		b := get(t, p, miB/2+miB/16)
		if b != near {
			t.Error("another buffer was cut or extended further")
		}
		b.Release()
	})
}

func TestPresize(t *testing.T) {
	eachPool(t, 10*miB, PoolOptions{}, func(t *testing.T, p *Pool, budget *budget) {
		testkit.Must(t, p.Presize(3*miB, 2))
		want := Stats{Buffers: 2, BufferStats: BufferStats{
			Name: "batch", Kind: HostMemory, MaxReal: 3 * miB, Reserved: 6 * miB, MaxReserved: 6 * miB,
		}}
		if st := p.Stats(); st != want {
			t.Errorf("%+v, want %+v", st, want)
		}
		if err := p.Presize(3*miB, 2); err != nil || p.Stats() != want { // they already exist
			t.Errorf("%v, %+v, want %+v", err, p.Stats(), want)
		}
		if err := p.Presize(3*miB, 4); err == nil {
			t.Error("four were promised where there is room for three")
		}
		if st := p.Stats(); st.Buffers != 3 || st.Reserved != 9*miB || budget.charged() != 9*miB {
			t.Errorf("%+v, want three buffers", st)
		}
		a, b, c := get(t, p, 3*miB), get(t, p, 3*miB), get(t, p, 3*miB)
		for _, x := range []*Buffer{a, b, c} {
			x.Release()
		}
	})
}

package pinned

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/testkit"
)

// budget is a plain limit that records its calls.
type budget struct {
	mu          sync.Mutex
	limit, used int64
	back        int // how often memory was released
}

func (b *budget) Reserve(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n > b.limit {
		return false
	}
	b.used += n
	return true
}

func (b *budget) Release(n int64) { b.less(n, 1) }
func (b *budget) Cancel(n int64)  { b.less(n, 0) }

func (b *budget) less(n int64, back int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.back += back
	if b.used < 0 || n <= 0 {
		panic(fmt.Sprintf("%d bytes given back, %d stay reserved", n, b.used))
	}
}

func (b *budget) returns() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.back
}

// seen returns how many bytes of released buffers readers may still see.
func seen(p *Pool) (bytes int64) {
	p.asking.Lock()
	defer p.asking.Unlock()
	for _, b := range listed(p) {
		if !p.idle(b) {
			bytes += b.held
		}
		p.leave(b)
	}
	return bytes
}

// listed returns the released buffers.
func listed(p *Pool) []*Buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.released)
}

func (b *budget) charged() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// eachStore runs a test on both kinds of store.
func eachStore(t *testing.T, limit int64, test func(t *testing.T, p *Pool, b *budget)) {
	for _, kind := range []string{"tmpfs", "anonymous"} {
		t.Run(kind, func(t *testing.T) {
			s := NewAnonymousStore()
			if kind == "tmpfs" {
				if s = NewStore(1 << 30); !s.files() {
					t.Skipf("SKIPPED: no private tmpfs here: %v", s.Reason())
				}
			}
			defer s.Close()
			b := &budget{limit: limit}
			p := NewPool(s, b, PoolOptions{})
			test(t, p, b)
			p.Close()
			if used := b.charged(); used != 0 {
				t.Errorf("%d bytes stay charged after Close", used)
			}
		})
	}
}

func get(t *testing.T, p *Pool, size int64) *Buffer {
	t.Helper()
	b, err := p.Get(size)
	testkit.Must(t, err)
	if int64(len(b.Bytes())) != size || int64(cap(b.Bytes())) != size {
		t.Fatalf("size %d: %d bytes, capacity %d", size, len(b.Bytes()), cap(b.Bytes()))
	}
	return b
}

func checkFile(t *testing.T, b *Buffer) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(b.Fd(), &st); err != nil || st.Size != int64(len(b.Bytes())) {
		t.Fatalf("the file has %d bytes (%v), the buffer %d", st.Size, err, len(b.Bytes()))
	}
	got := make([]byte, st.Size)
	if n, err := unix.Pread(b.Fd(), got, 0); err != nil || int64(n) != st.Size || !bytes.Equal(got, b.Bytes()) {
		t.Fatalf("the file holds something else (%d bytes, %v)", n, err)
	}
}

// TestSeenBuffersAreNotReused tests the purpose of the package: a reader that has the file open,
// or only mapped, keeps its bytes.
func TestSeenBuffersAreNotReused(t *testing.T) {
	s := NewStore(1 << 30)
	if !s.files() {
		t.Skipf("SKIPPED: no private tmpfs here: %v", s.Reason())
	}
	defer s.Close()
	p := NewPool(s, &budget{limit: 1 << 30}, PoolOptions{})
	defer p.Close()
	const size = 1 << 20
	b := get(t, p, size)
	copy(b.Bytes(), "the reader's own")

	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", b.Fd()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	testkit.Must(t, err)
	view, err := unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	testkit.Must(t, err)
	b.Release()
	overwrite := func(when string) {
		t.Helper()
		c := get(t, p, size)
		if c == b {
			t.Fatalf("%s: the buffer was handed out", when)
		}
		clear(c.Bytes())
		c.Release()
		if string(view[:16]) != "the reader's own" {
			t.Fatalf("%s: the reader sees other bytes", when)
		}
	}
	overwrite("open and mapped")
	unix.Close(fd)
	overwrite("mapped only")
	if seen := seen(p); seen != size {
		t.Errorf("%d bytes count as seen, want %d", seen, size)
	}
	if p.Trim(); string(view[:16]) != "the reader's own" {
		t.Fatal("Trim took the reader's bytes")
	}
	testkit.Must(t, unix.Munmap(view))
	if c := get(t, p, size); c != b {
		t.Error("nobody sees the buffer any more, and it is not reused")
	} else {
		c.Release()
	}
}

func TestBudgetIsAHardLimit(t *testing.T) {
	eachStore(t, 3<<20, func(t *testing.T, p *Pool, b *budget) {
		first, second := get(t, p, 1<<20), get(t, p, 2<<20)
		if _, err := p.Get(1); !errors.Is(err, ErrNoMemory) {
			t.Fatalf("error %v, want ErrNoMemory", err)
		}
		first.Release()
		if c := get(t, p, 1<<20); c != first {
			t.Error("the free buffer was not reused")
		} else {
			c.Release()
		}
		// Growing the free one needs more than the budget has left.
		if _, err := p.Get(2 << 20); !errors.Is(err, ErrNoMemory) {
			t.Fatalf("error %v, want ErrNoMemory", err)
		}
		second.Release()
		p.Trim()
		if used := b.charged(); used != 0 {
			t.Errorf("%d bytes charged with nothing in use", used)
		}
		get(t, p, 3<<20).Release()
	})
}

func TestFullFileSystemIsAnErrorNotASignal(t *testing.T) {
	s := NewStore(1 << 20)
	if !s.files() {
		t.Skipf("SKIPPED: no private tmpfs here: %v", s.Reason())
	}
	defer s.Close()
	b := &budget{limit: 1 << 40}
	p := NewPool(s, b, PoolOptions{})
	defer p.Close()
	if _, err := p.Get(64 << 20); !errors.Is(err, errKernel) || !errors.Is(err, unix.ENOSPC) || errors.Is(err, ErrNoMemory) {
		t.Fatalf("error %v, want errKernel", err)
	} else if fault.Of(err) != fault.Memory {
		t.Errorf("%v is not taken for a lack of memory", err)
	}
	if used := b.charged(); used != 0 || b.returns() != 0 {
		t.Errorf("%d bytes charged for a buffer that could not be made, memory came back %d times", used, b.returns())
	}
}

func TestBestFit(t *testing.T) {
	eachStore(t, 1<<30, func(t *testing.T, p *Pool, _ *budget) {
		small, middle, large := get(t, p, 1<<20), get(t, p, 2<<20), get(t, p, 3<<20)
		small.Release()
		large.Release()
		middle.Release()
		fit, grown := get(t, p, 2<<20-5), get(t, p, 4<<20)
		if fit != middle {
			t.Error("the smallest buffer that is large enough was not taken")
		}
		if grown != large {
			t.Error("the largest buffer, which has the least to grow, was not taken")
		}
		fit.Release()
		grown.Release()
	})
}

func TestReleasingTwicePanics(t *testing.T) {
	p := NewPool(NewAnonymousStore(), &budget{limit: 1 << 20}, PoolOptions{})
	b := get(t, p, 10)
	b.Release()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	b.Release()
}

package pinned

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

// faultyStores are the two kinds of store over a faulty kernel.
func faultyStores(f *fakeKernel) map[string]*Store {
	return map[string]*Store{"files": newStore(fakeRoot, f), "anonymous": {root: -1, system: f}}
}

// exercise uses everything that a pool requests from the kernel, and returns its errors. Nothing
// is in use afterwards.
func exercise(p *Pool) (errs []error) {
	var held []*Buffer
	get := func(size int64) {
		b, err := p.Get(size)
		if err != nil {
			errs = append(errs, err)
			return
		}
		held = append(held, b)
		for i := int64(0); i < size; i += pageSize {
			b.Bytes()[i] = 1
		}
	}
	release := func() {
		for _, b := range held {
			b.Release()
		}
		held = nil
	}
	get(3 * pageSize)
	get(5 * pageSize)
	release()
	get(2 * pageSize) // smaller: spare pages
	p.Trim()
	release()
	get(9 * pageSize) // grows
	release()
	get(10 * pageSize) // with a margin
	get(0)
	release()
	p.Trim()
	return errs
}

// TestEveryCallFails makes each system call fail in turn, once and permanently, with each of its
// possible errors.
func TestEveryCallFails(t *testing.T) {
	errnos := map[string][]unix.Errno{
		"open": {unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOSPC}, "ftruncate": {unix.ENOMEM, unix.EIO}, "fallocate": {unix.ENOSPC, unix.ENOMEM},
		"mmap": {unix.ENOMEM, unix.ENFILE, unix.EAGAIN}, "mremap": {unix.ENOMEM}, "mlock": {unix.ENOMEM, unix.EAGAIN, unix.EPERM},
		"madvise": {unix.ENOMEM, unix.EINVAL}, "fcntl": {unix.EINVAL, unix.ENOMEM, unix.ENOLCK}, "punch": {unix.EOPNOTSUPP, unix.ENOSPC},
	}
	fatal := map[string]bool{"open": true, "ftruncate": true, "fallocate": true, "mmap": true}
	for kind := range faultyStores(newFakeKernel()) {
		for call, list := range errnos {
			for _, errno := range list {
				for _, lasting := range []bool{false, true} {
					for nth := 1; ; nth++ {
						name := fmt.Sprintf("%s, %s number %d, %v, lasting %v", kind, call, nth, errno, lasting)
						if !failOne(t, name, kind, call, nth, errno, lasting, fatal[call]) {
							break
						}
					}
				}
			}
		}
	}
}

// failOne reports whether there was an nth call.
func failOne(t *testing.T, name, kind, call string, nth int, errno unix.Errno, lasting, fatal bool) bool {
	f := newFakeKernel()
	s := faultyStores(f)[kind]
	budget := &budget{limit: 1 << 30}
	p := NewPool(s, budget, PoolOptions{Lock: true, Growth: 1.5})
	first := f.count(call)
	f.failing(func(c string) error {
		if n := f.count(call) - first; c == call && (n == nth || lasting && n > nth) {
			return errno
		}
		return nil
	})
	errs := exercise(p)
	reached := f.count(call)-first >= nth
	for _, err := range errs {
		if !errors.Is(err, errKernel) || !errors.Is(err, errno) || errors.Is(err, ErrNoMemory) {
			t.Errorf("%s: error %v, want errKernel with the errno", name, err)
		}
	}
	if reached && fatal != (len(errs) > 0) && (lasting || !fatal) {
		t.Errorf("%s: %d errors", name, len(errs))
	}
	if !lasting && len(errs) > 0 {
		t.Errorf("%s: not tried again: %v", name, errs)
	}
	checkAccounts(t, name, p, f, budget)
	f.failing(nil)
	if errs := exercise(p); len(errs) > 0 {
		t.Errorf("%s: %v when nothing failed any more", name, errs)
	}
	checkAccounts(t, name+", later", p, f, budget)
	p.Close()
	if files, mappings := f.held(); files != 0 || mappings != 0 || budget.charged() != 0 {
		t.Errorf("%s: %d files, %d mappings and %d charged bytes after Close", name, files, mappings, budget.charged())
	}
	return reached
}

// checkAccounts compares the figures of budget, pool and kernel while nothing is in use.
func checkAccounts(t *testing.T, name string, p *Pool, f *fakeKernel, b *budget) {
	t.Helper()
	st := p.Stats()
	files, mappings := f.held()
	if p.store.files() && files != st.Buffers || mappings != p.mapped() {
		t.Errorf("%s: %d files and %d mappings, the pool has %d buffers, %d of them mapped", name, files, mappings, st.Buffers, p.mapped())
	}
	if b.charged() != st.Reserved || st.Real != 0 {
		t.Errorf("%s: %d bytes charged, the pool has %+v", name, b.charged(), st)
	}
}

// mapped returns how many released buffers are mapped.
func (p *Pool) mapped() (n int) {
	for _, b := range listed(p) {
		if b.mapping != nil {
			n++
		}
	}
	return n
}

// TestKernelsRefusalIsNotMemoryComingBack: a refusal must not signal freed memory to callers
// that wait for it before they try again.
func TestKernelsRefusalIsNotMemoryComingBack(t *testing.T) {
	for kind := range faultyStores(newFakeKernel()) {
		for _, call := range []string{"open", "ftruncate", "fallocate", "mmap"} {
			f := newFakeKernel()
			budget := &budget{limit: 1 << 30}
			p := NewPool(faultyStores(f)[kind], budget, PoolOptions{})
			if f.mappings > 0 || kind == "anonymous" && call != "mmap" {
				continue
			}
			f.failing(func(c string) error {
				if c == call {
					return unix.ENOMEM
				}
				return nil
			})
			tries := f.count(call)
			if _, err := p.Get(miB); !errors.Is(err, errKernel) {
				t.Errorf("%s, %s: error %v", kind, call, err)
			}
			if n := f.count(call) - tries; n != 2 {
				t.Errorf("%s, %s: the kernel was asked %d times, want twice", kind, call, n)
			}
			if budget.charged() != 0 || budget.returns() != 0 {
				t.Errorf("%s, %s: %d bytes stay charged, memory came back %d times", kind, call, budget.charged(), budget.returns())
			}
		}
	}
}

// TestIdleBuffersGiveUpTheirDescriptors: if the kernel has no more descriptors, idle buffers are
// freed.
func TestIdleBuffersGiveUpTheirDescriptors(t *testing.T) {
	f := newFakeKernel()
	budget := &budget{limit: 1 << 30}
	p := NewPool(newStore(fakeRoot, f), budget, PoolOptions{})
	f.limit = 40
	var held []*Buffer
	for range f.limit {
		b := get(t, p, pageSize)
		f.see(b, true)
		held = append(held, b)
	}
	for _, b := range held {
		b.Release()
	}
	if _, err := p.Get(pageSize); !errors.Is(err, errKernel) || !errors.Is(err, unix.EMFILE) {
		t.Fatalf("error %v while readers see all %d buffers", err, f.limit)
	}
	// Buffers that a Get would not query.
	for i, b := range listed(p) {
		if i >= waiting+1 && i < 30 {
			f.see(b, false)
		}
	}
	before := budget.returns()
	b := get(t, p, pageSize)
	if files, _ := f.held(); files > 20 {
		t.Errorf("%d descriptors are held", files)
	}
	if budget.returns() == before {
		t.Error("the budget was not told that memory came back")
	}
	f.see(b, false)
	b.Release()
}

// TestProbesAreBounded: with thousands of buffers that readers see, a Get asks the kernel about
// only a few of them, and about each one eventually.
func TestProbesAreBounded(t *testing.T) {
	const buffers = 5000
	f := newFakeKernel()
	budget := &budget{limit: 1 << 30}
	p := NewPool(newStore(fakeRoot, f), budget, PoolOptions{})
	var held []*Buffer
	for i := range int64(buffers) {
		b := get(t, p, 1+i%2*pageSize)
		f.see(b, true)
		held = append(held, b)
	}
	for _, i := range rand.Perm(buffers) {
		held[i].Release()
	}
	lucky := listed(p)[buffers/2] // neither released last nor least recently queried
	f.see(lucky, false)
	for gets := 1; ; gets++ {
		before := f.count("fcntl")
		b := get(t, p, 1)
		if n := f.count("fcntl") - before; n > suiting+waiting+1 {
			t.Fatalf("one Get asked the kernel %d times", n)
		}
		p.Stats()
		if b == lucky {
			break
		}
		if gets > buffers/waiting {
			t.Fatalf("an idle buffer was not found in %d Gets", gets)
		}
		f.see(b, true)
		b.Release()
	}
	// When memory is short, all of them are queried.
	lucky.Release()
	budget.limit = budget.charged()
	f.see(lucky, true)
	all := listed(p)[buffers/3:]
	lucky = all[slices.IndexFunc(all, func(b *Buffer) bool { return b.held == 2*pageSize })]
	f.see(lucky, false)
	if b := get(t, p, 1); b != lucky || b.held != 2*pageSize || p.Stats().Reserved != budget.charged() {
		t.Error("another buffer than the only idle one, or not all of it")
	}
	if _, err := p.Get(1); !errors.Is(err, ErrNoMemory) {
		t.Errorf("error %v with nothing idle, want ErrNoMemory", err)
	}
}

// TestWithoutLeases: a buffer is not reused if nothing shows that it is unseen.
func TestWithoutLeases(t *testing.T) {
	refuse := func(call string) error {
		if call == "fcntl" {
			return unix.EINVAL
		}
		return nil
	}
	check := func(t *testing.T, f *fakeKernel, p *Pool, b *budget) {
		t.Helper()
		first := get(t, p, miB)
		second := get(t, p, miB)
		first.Release()
		if files, mappings := f.held(); files != 1 || mappings != 1 || b.charged() != miB {
			t.Errorf("%d files, %d mappings and %d bytes are kept", files, mappings, b.charged())
		}
		asked := f.count("fcntl")
		get(t, p, miB).Release()
		second.Release()
		if n := f.count("fcntl"); n != asked {
			t.Error("the kernel is asked for leases that it does not grant")
		}
		if err := p.Stats().ReuseError; !errors.Is(err, unix.EINVAL) {
			t.Errorf("the pool says %v", err)
		}
		if files, mappings := f.held(); files != 0 || mappings != 0 || b.charged() != 0 {
			t.Errorf("%d files, %d mappings and %d bytes at the end", files, mappings, b.charged())
		}
	}
	t.Run("from the start", func(t *testing.T) {
		f, b := newFakeKernel(), &budget{limit: 1 << 30}
		f.failing(refuse)
		s := newStore(fakeRoot, f)
		if err := s.Leases(); !errors.Is(err, unix.EINVAL) {
			t.Errorf("the store says %v", err)
		}
		check(t, f, NewPool(s, b, PoolOptions{}), b)
	})
	t.Run("from some time on", func(t *testing.T) {
		f, b := newFakeKernel(), &budget{limit: 1 << 30}
		p := NewPool(newStore(fakeRoot, f), b, PoolOptions{})
		testkit.Must(t, p.Stats().ReuseError)
		get(t, p, miB).Release()
		f.failing(refuse)
		get(t, p, 2*miB).Release() // learns of the refusal
		check(t, f, p, b)
	})
	t.Run("ordinary memory needs none", func(t *testing.T) {
		f, b := newFakeKernel(), &budget{limit: 1 << 30}
		f.failing(refuse)
		p := NewPool(faultyStores(f)["anonymous"], b, PoolOptions{})
		first := get(t, p, miB)
		first.Release()
		if second := get(t, p, miB); second != first || p.Stats().ReuseError != nil {
			t.Errorf("not reused: %v", p.Stats().ReuseError)
		}
	})
}

// TestHostRefused: a worker's buffer that the kernel refuses to change stays unchanged, and can
// be changed later.
func TestHostRefused(t *testing.T) {
	for _, call := range []string{"mmap", "mremap"} {
		f, account := newFakeKernel(), NewAccount("scratch")
		h := NewHost(DefaultPolicy(), account)
		h.system = f
		if call == "mremap" {
			mustGrow(t, &h, 100_000)
		}
		f.failing(func(c string) error {
			if c == call {
				return unix.ENOMEM
			}
			return nil
		})
		bytes, stats, plan := h.Bytes(), account.Stats(), h.Plan(miB)
		_, grow := h.Grow(miB)
		for _, err := range []error{grow, h.Presize(miB)} {
			if !errors.Is(err, errKernel) || !errors.Is(err, unix.ENOMEM) || errors.Is(err, ErrNoMemory) {
				t.Errorf("%s: error %v, want errKernel", call, err)
			}
		}
		if h.Bytes() != bytes || account.Stats() != stats || h.Plan(miB) != plan {
			t.Errorf("%s: %d bytes, plan %d, %+v after the refusal; %d, %d, %+v before", call, h.Bytes(), h.Plan(miB), account.Stats(), bytes, plan, stats)
		}
		f.failing(nil)
		mustGrow(t, &h, miB)
		h.Free()
		if _, mappings := f.held(); mappings != 0 {
			t.Errorf("%s: %d mappings are left", call, mappings)
		}
	}
}

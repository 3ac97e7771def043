package pinned

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// fakeKernel is a simulated kernel: files are numbers with a size, their mappings are ordinary
// memory. It fails as told, and records what it handed out.
type fakeKernel struct {
	kernel
	fail func(call string) error // nil: nothing fails

	mu       sync.Mutex
	calls    map[string]int
	files    map[int]*fakeFile
	next     int
	limit    int // maximum number of open files; 0: unlimited
	mappings int
}

type fakeFile struct {
	size   int64
	leased bool
	seen   bool // by a reader
}

func newFakeKernel() *fakeKernel {
	return &fakeKernel{calls: map[string]int{}, files: map[int]*fakeFile{}}
}

func (f *fakeKernel) call(name string) error {
	f.mu.Lock()
	f.calls[name]++
	fail := f.fail
	f.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(name)
}

func (f *fakeKernel) failing(fail func(call string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func (f *fakeKernel) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[name]
}

// held returns the number of open files and of mappings.
func (f *fakeKernel) held() (files, mappings int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.files), f.mappings
}

func (f *fakeKernel) see(b *Buffer, seen bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[b.Fd()].seen = seen
}

func (f *fakeKernel) temporary(int) (int, error) {
	if err := f.call("open"); err != nil {
		return -1, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.limit > 0 && len(f.files) >= f.limit {
		return -1, unix.EMFILE
	}
	f.next++
	f.files[f.next] = &fakeFile{}
	return f.next, nil
}

func (f *fakeKernel) close(fd int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fd == fakeRoot {
		return
	}
	if f.files[fd] == nil {
		panic(fmt.Sprintf("file %d is closed twice", fd))
	}
	delete(f.files, fd)
}

func (f *fakeKernel) truncate(fd int, size int64) error {
	if err := f.call("ftruncate"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[fd].size = size
	return nil
}

func (f *fakeKernel) allocate(_ int, mode uint32, _, _ int64) error {
	if mode&unix.FALLOC_FL_PUNCH_HOLE != 0 {
		return f.call("punch")
	}
	return f.call("fallocate")
}

func (f *fakeKernel) allocated(int) int64 { return 0 } // what was punched out is gone

func (f *fakeKernel) lease(fd, kind int) error {
	if err := f.call("fcntl"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	file := f.files[fd]
	switch {
	case kind == unix.F_UNLCK && file.leased:
		file.leased = false
		return nil
	case file.leased:
		panic("two ask about one file at once")
	case file.seen || kind == unix.F_UNLCK:
		return unix.EAGAIN
	}
	file.leased = true
	return nil
}

func (f *fakeKernel) mapped(name string, m func() ([]byte, error)) ([]byte, error) {
	if err := f.call(name); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.mappings++
	f.mu.Unlock()
	return m()
}

func (f *fakeKernel) mapFile(_, n int) ([]byte, error) { return f.mapMemory(n) }
func (f *fakeKernel) mapMemory(n int) ([]byte, error) {
	return f.mapped("mmap", func() ([]byte, error) { return f.kernel.mapMemory(n) })
}

func (f *fakeKernel) remap(m []byte, n, flags int) ([]byte, error) {
	if err := f.call("mremap"); err != nil {
		return nil, err
	}
	return f.kernel.remap(m, n, flags)
}

func (f *fakeKernel) unmap(m []byte) {
	f.mu.Lock()
	f.mappings--
	f.mu.Unlock()
	f.kernel.unmap(m)
}

func (f *fakeKernel) advise([]byte, int) error { return f.call("madvise") }
func (f *fakeKernel) lock([]byte) error        { return f.call("mlock") }

// fakeRoot is the descriptor of the directory that contains the files.
const fakeRoot = 0

// TestPolicyRead: what the variables say, and that a wrong one is refused with its name, the rule
// and the value.
func TestPolicyRead(t *testing.T) {
	const shrink, common = "BATCHFS_HOST_BUFFER_SHRINK_THRESHOLD", "BATCHFS_BUFFER_GROWTH_FACTOR"
	const host, device = "BATCHFS_HOST_BUFFER_GROWTH_FACTOR", "BATCHFS_DEVICE_BUFFER_GROWTH_FACTOR"
	for _, c := range []struct {
		env  map[string]string
		want Policy
		bad  string // the variable that is refused, and the rule
	}{
		{nil, Policy{0.9, 1, 1}, ""},
		{map[string]string{shrink: "", common: ""}, Policy{0.9, 1, 1}, ""},
		{map[string]string{shrink: "0"}, Policy{0, 1, 1}, ""},
		{map[string]string{shrink: "1"}, Policy{1, 1, 1}, ""},
		{map[string]string{shrink: ".5", common: "1.25"}, Policy{0.5, 1.25, 1.25}, ""},
		{map[string]string{common: "4"}, Policy{0.9, 4, 4}, ""},
		{map[string]string{host: "2"}, Policy{0.9, 2, 1}, ""},
		{map[string]string{common: "3", host: "1"}, Policy{0.9, 1, 3}, ""},
		{map[string]string{common: "3", device: "1.5"}, Policy{0.9, 3, 1.5}, ""},
		{map[string]string{shrink: "-0.1"}, Policy{}, shrink + " must be a number from 0 to 1"},
		{map[string]string{shrink: "1.01"}, Policy{}, shrink + " must be a number from 0 to 1"},
		{map[string]string{shrink: "NaN"}, Policy{}, shrink + " must be a number from 0 to 1"},
		{map[string]string{shrink: " 0.5"}, Policy{}, shrink + " must be a number from 0 to 1"},
		{map[string]string{common: "0.99", host: "1"}, Policy{}, common + " must be a number from 1 to 4"},
		{map[string]string{common: "4.1"}, Policy{}, common + " must be a number from 1 to 4"},
		{map[string]string{host: "Inf"}, Policy{}, host + " must be a number from 1 to 4"},
		{map[string]string{device: "0", host: "1"}, Policy{}, device + " must be a number from 1 to 4"},
		{map[string]string{host: "90%"}, Policy{}, host + " must be a number from 1 to 4"},
	} {
		var got Policy
		err := got.Read(func(name string) string { return c.env[name] })
		name, _, _ := strings.Cut(c.bad, " ")
		if c.bad == "" && err != nil || c.bad != "" && (err == nil || err.Error() != c.bad+`, not "`+c.env[name]+`"`) || got != c.want {
			t.Errorf("%v: %+v, %v; want %+v", c.env, got, err, c.want)
		}
	}
}

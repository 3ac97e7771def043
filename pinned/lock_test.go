package pinned

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

// lockedMemory returns how much memory this process has page-locked, according to the kernel.
func lockedMemory(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	testkit.Must(t, err)
	for line := range strings.Lines(string(text)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmLck: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	t.Fatal("the kernel does not say how much is locked")
	return 0
}

func TestLockedBuffers(t *testing.T) {
	if err := CanLock(16 * miB); err != nil {
		t.Skipf("SKIPPED: no memory can be locked here: %v", err)
	}
	if n := lockedMemory(t); n != 0 {
		t.Fatalf("CanLock leaves %d bytes locked", n)
	}
	eachPool(t, 1<<30, PoolOptions{Lock: true, Growth: 1.5}, func(t *testing.T, p *Pool, _ *budget) {
		check := func(step string, want int64) {
			t.Helper()
			st := p.Stats()
			if got := lockedMemory(t); got != want || st.LockedBytes != want || !st.Locked || st.LockError != nil {
				t.Fatalf("%s: the kernel has %d bytes locked, want %d; stats %+v", step, got, want, st)
			}
		}
		check("empty", 0)
		a := get(t, p, miB)
		write(a, 1)
		check("one", miB)
		b := get(t, p, 2*miB-9)
		check("two", 3*miB)
		b.Release()
		check("released", 3*miB)
		b = get(t, p, 2*miB+1) // with a margin
		write(b, 2)
		check("grown", 4*miB)
		b.Release()
		b = get(t, p, 5)
		check("smaller", 4*miB)
		a.Release()
		b.Release()
		if s := p.Stats(); !s.Locked || s.Kind != Pinned {
			t.Errorf("%+v", s)
		}
		p.Trim()
		check("trimmed", 0)
	})
}

// refusedVariable marks the child process, which may lock almost nothing.
const refusedVariable = "PINNED_TEST_LOCK_REFUSED"

// TestLockingRefused runs TestLockingRefusedChild in a separate process, since it gives up
// privileges for good.
func TestLockingRefused(t *testing.T) {
	child := exec.Command("/proc/self/exe", "-test.run=^TestLockingRefusedChild$", "-test.v")
	child.Env = append(os.Environ(), refusedVariable+"=1")
	out, err := child.CombinedOutput()
	switch text := string(out); {
	case strings.Contains(text, "CANNOT BE ARRANGED"):
		t.Skipf("SKIPPED: locking could not be forbidden:\n%s", text)
	case err != nil:
		t.Errorf("%v\n%s", err, text)
	case !strings.Contains(text, "--- PASS: TestLockingRefusedChild"):
		t.Errorf("the child did not run its test:\n%s", text)
	}
}

const childLimit = 64 * kiB

func TestLockingRefusedChild(t *testing.T) {
	if os.Getenv(refusedVariable) == "" {
		t.Skip("is run by TestLockingRefused")
	}
	runtime.LockOSThread() // the thread loses the capability, and ends with the test
	if err := errors.Join(dropLocking(), limitLocking(childLimit)); err != nil {
		t.Skipf("CANNOT BE ARRANGED: %v", err)
	}
	checkRefusal(t) // no subtests: they run on other threads
	for _, files := range []bool{true, false} {
		s := NewAnonymousStore()
		if files {
			s = NewStore(1 << 30)
		}
		if files == s.files() {
			checkRefusedPool(t, s)
		} else {
			t.Logf("no private tmpfs here: %v", s.Reason())
		}
		s.Close()
	}
	testkit.Must(t, limitLocking(0))
	if err := CanLock(1); !errors.Is(err, unix.EPERM) {
		t.Errorf("error %v with a limit of 0, want EPERM", err)
	}
}

func checkRefusal(t *testing.T) {
	t.Helper()
	for _, n := range []int64{-1, 0, childLimit} {
		if err := CanLock(n); err != nil {
			t.Errorf("CanLock(%d), which the limit allows: %v", n, err)
		}
	}
	err := CanLock(childLimit + 1)
	if !errors.Is(err, unix.ENOMEM) {
		t.Fatalf("error %v, want ENOMEM", err)
	}
	for _, part := range []string{"65 KiB", "RLIMIT_MEMLOCK is 64 KiB", "ulimit -l", "LimitMEMLOCK", "CAP_IPC_LOCK"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func checkRefusedPool(t *testing.T, s *Store) {
	t.Helper()
	p := NewPool(s, &budget{limit: 1 << 30}, PoolOptions{Lock: true})
	small := get(t, p, 32*kiB)
	if st := p.Stats(); !st.Locked || st.LockError != nil || st.LockedBytes != 32*kiB || lockedMemory(t) != 32*kiB {
		t.Errorf("files %v: %+v, %d bytes locked, within the limit", s.files(), st, lockedMemory(t))
	}
	large := get(t, p, miB)
	write(large, 1)
	st := p.Stats()
	if st.Locked || st.LockedBytes != 32*kiB || st.LockError == nil || !strings.Contains(st.LockError.Error(), "RLIMIT_MEMLOCK is 64 KiB") {
		t.Errorf("files %v: %+v, beyond the limit", s.files(), st)
	}
	again := get(t, p, 16*kiB)
	if now := p.Stats(); now.LockError != st.LockError || now.LockedBytes != 32*kiB {
		t.Errorf("files %v: the kernel was asked again: %+v", s.files(), now)
	}
	if b := p.Stats(); b.Locked || b.Kind != Pinned {
		t.Errorf("files %v: %+v", s.files(), b)
	}
	for _, b := range []*Buffer{small, large, again} {
		b.Release()
	}
	p.Close()
	if n := lockedMemory(t); n != 0 {
		t.Errorf("files %v: %d bytes stay locked", s.files(), n)
	}
}

// dropLocking removes CAP_IPC_LOCK from the calling thread.
func dropLocking() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	const bit = 1 << unix.CAP_IPC_LOCK
	data[0].Effective &^= bit
	data[0].Permitted &^= bit
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return nil
}

// limitLocking sets how many bytes the process may lock.
func limitLocking(n uint64) error {
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: n, Max: n}); err != nil {
		return fmt.Errorf("RLIMIT_MEMLOCK: %w", err)
	}
	return nil
}

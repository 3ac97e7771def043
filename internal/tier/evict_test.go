package tier

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
	"golang.org/x/sys/unix"
)

// TestLockGoesLast: if a part of an evicted dataset cannot be removed, as if the process were
// killed there, the lock stays. Without it, the rest would never be looked at again.
func TestLockGoesLast(t *testing.T) {
	dir := t.TempDir()
	o, unused := newOrigin(100), open(t, dir, Options{Limit: 1 << 30, Dataset: "unused"})
	for i := range 40 {
		o.put(unused, fmt.Sprint(i))
	}
	unused.Close()
	stays := filepath.Join(unused.shelf.dir.Name(), "zz")
	testkit.Must(t, os.Mkdir(stays, 0o700))
	if err := unix.Mount("tmpfs", stays, "tmpfs", 0, ""); err != nil {
		t.Skip("SKIPPED: cannot mount a tmpfs:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(stays, unix.MNT_DETACH) })
	used := open(t, dir, Options{Limit: 1 << 30, Dataset: "used"})
	if used.shelf.room.evict() || used.Stats().Used != 0 {
		t.Errorf("%+v", used.Stats())
	}
	if _, err := os.Stat(unused.shelf.lock.Name()); err != nil {
		t.Errorf("something is left without a lock: %v", err)
	}
	testkit.Must(t, unix.Unmount(stays, unix.MNT_DETACH))
	if !used.shelf.room.evict() {
		t.Error("it does not give way")
	}
	if _, err := os.Stat(unused.shelf.dir.Name()); !os.IsNotExist(err) {
		t.Errorf("its directory is still there: %v", err)
	}
}

// TestOpenBesideEviction: a dataset can be opened while other processes evict it, and stays while
// it is open. So does a plan that is followed, while others find out whether it is.
func TestOpenBesideEviction(t *testing.T) {
	dir := t.TempDir()
	ended := make(chan struct{})
	var evicting sync.WaitGroup
	for i := range 3 {
		other := open(t, dir, Options{Limit: 1 << 30, Dataset: fmt.Sprint(i)})
		testkit.Must(t, other.Follow("", 1))
		evicting.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					other.shelf.room.evict()
					other.PlanRoom()
				}
			}
		})
	}
	defer evicting.Wait()
	defer close(ended)
	for range 500 {
		tier, err := Open(dir, Options{Limit: 1 << 30, Dataset: "x"})
		if err == nil {
			err = tier.Follow("", 1)
		}
		testkit.Must(t, err)
		for range 10 {
			runtime.Gosched()
			if !isThere(tier.shelf.lock) || !isThere(tier.follows.file) {
				t.Fatalf("the dataset is there: %v, its plan: %v", isThere(tier.shelf.lock), isThere(tier.follows.file))
			}
		}
		tier.Close()
	}
}

// TestNoRoomForOneIsRoomForAnother: an extent that does not fit keeps out none that does, even
// while both ask.
func TestNoRoomForOneIsRoomForAnother(t *testing.T) {
	const limit = 1000
	r, err := openRoom(t.TempDir())
	testkit.Must(t, err)
	defer r.close()
	var asking sync.WaitGroup
	defer asking.Wait()
	done := make(chan struct{})
	defer close(done)
	asking.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if r.take(limit+1, limit) {
					t.Error("there is room beyond the limit")
				}
			}
		}
	})
	for range 200_000 {
		if !r.take(1, limit) {
			t.Fatal("there is no room, though nothing is taken")
		}
		r.give(1)
	}
}

// TestPlansShareRoom: each plan has room in proportion to its candidates, while somebody follows
// it. Users of the same plan share its room.
func TestPlansShareRoom(t *testing.T) {
	const limit = 1 << 20
	dir := t.TempDir()
	follow := func(dataset, plan string, bytes int64) *Tier {
		t.Helper()
		tier := open(t, dir, Options{Limit: limit, Dataset: dataset})
		if room := tier.PlanRoom(); room != limit {
			t.Errorf("without a plan: %d", room)
		}
		testkit.Must(t, tier.Follow(plan, bytes))
		return tier
	}
	rooms := func(want ...any) {
		t.Helper()
		for i := 0; i < len(want); i += 2 {
			if got := want[i].(*Tier).PlanRoom(); got != int64(want[i+1].(int)) {
				t.Errorf("%d: room of %d, want %d", i/2, got, want[i+1])
			}
		}
	}
	a := follow("x", "a", 300)
	rooms(a, limit)
	b := follow("x", "b", 300)
	rooms(a, limit/2, b, limit/2)
	c, other := follow("x", "a", 300), follow("y", "a", 600)
	rooms(a, limit/4, b, limit/4, c, limit/4, other, limit/2)
	a.Close()
	rooms(b, limit/4, c, limit/4, other, limit/2)
	c.Close()
	b.Close()
	rooms(other, limit)
	if left, err := os.ReadDir(other.shelf.room.plans()); err != nil || len(left) != 1 {
		t.Errorf("files of plans that nobody follows are left: %v, %v", left, err)
	}
	testkit.Must(t, other.Follow("b", 200))
	b = follow("x", "b", 600)
	rooms(other, limit/4, b, limit/4*3)
	if s := b.Stats(); s.Used != 0 || sizeBelow(dir) != 0 {
		t.Errorf("plans take room: %+v", s)
	}
}

package tier

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLockGoesLast: a process that is killed while a dataset gives way leaves the dataset's lock,
// without which the rest would never be looked at again.
func TestLockGoesLast(t *testing.T) {
	dir := t.TempDir()
	o, unused := newOrigin(100), open(t, dir, Options{Limit: 1 << 30, Dataset: "unused"})
	for i := range 40 {
		o.put(unused, fmt.Sprint(i))
	}
	unused.Close()
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	events := os.NewFile(uintptr(watch), "inotify")
	defer events.Close()
	if _, err := unix.InotifyAddWatch(watch, unused.shelf.dir.Name(), unix.IN_DELETE); err != nil {
		t.Fatal(err)
	}
	used := open(t, dir, Options{Limit: 1 << 30, Dataset: "used"})
	if !used.shelf.room.evict() || used.Stats().Used != 0 {
		t.Fatalf("it does not give way: %+v", used.Stats())
	}
	if _, err := os.Stat(unused.shelf.dir.Name()); !os.IsNotExist(err) {
		t.Errorf("its directory is still there: %v", err)
	}
	buffer := make([]byte, 1<<16)
	n, err := unix.Read(watch, buffer)
	if err != nil {
		t.Fatal(err)
	}
	var gone []string
	for p := buffer[:n]; len(p) > 0; {
		length := int(binary.NativeEndian.Uint32(p[12:]))
		if length > 0 { // the last event is about the directory itself
			gone = append(gone, string(bytes.TrimRight(p[unix.SizeofInotifyEvent:][:length], "\x00")))
		}
		p = p[unix.SizeofInotifyEvent+length:]
	}
	if len(gone) < 20 || gone[len(gone)-1] != filepath.Base(unused.shelf.lock.Name()) {
		t.Errorf("in this order: %q", gone)
	}
}

// TestOpenBesideEviction: a dataset can be opened while others have it give way, and stays as long
// as it is open. So does a plan that is followed, while others find out whether it is.
func TestOpenBesideEviction(t *testing.T) {
	dir := t.TempDir()
	ended := make(chan struct{})
	var evicting sync.WaitGroup
	for i := range 3 {
		other := open(t, dir, Options{Limit: 1 << 30, Dataset: fmt.Sprint(i)})
		if err := other.Follow("", 1); err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			runtime.Gosched()
			if !isThere(tier.shelf.lock) || !isThere(tier.follows.file) {
				t.Fatalf("the dataset is there: %v, its plan: %v", isThere(tier.shelf.lock), isThere(tier.follows.file))
			}
		}
		tier.Close()
	}
}

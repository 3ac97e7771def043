package cache

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// growInto tells a child process to fill a cache and print how much it grew.
const growInto = "BATCHFS_TEST_GROW" // policy, sizes

func TestMain(m *testing.M) {
	if args := strings.Fields(os.Getenv(growInto)); len(args) == 2 {
		growth(args[0], args[1])
		return
	}
	os.Exit(m.Run())
}

var sizesOf = map[string]source{
	"unequal": unequal(7000, 5),
	"photos":  equal(1400, 101_000),
	"tiny":    equal(130_000, 700),
}

func policyNamed(name string) (p Policy) {
	for p.String() != name {
		p++
	}
	return p
}

// growth fills a cache over two epochs and prints how much the process grew, what the cache
// charged, and its limit.
func growth(policy, sizes string) {
	const limit = 64 << 20
	src := sizesOf[sizes]
	p := policyNamed(policy)
	largest := 0
	for _, n := range src.sizes {
		largest = max(largest, n)
	}
	in, out := make([]byte, largest), make([]byte, largest)
	clear(in) // touch both before anything is measured
	clear(out)
	debug.FreeOSMemory()
	before := resident()
	c, err := New(Options{
		Policy: p, Limit: limit, Samples: int64(len(src.sizes)),
		Plan: planFunc(func(epoch int, id int64) bool { return (int64(epoch)+id)%2 > 0 }),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for epoch := range 2 {
		for _, id := range rand.New(rand.NewPCG(uint64(epoch), 1)).Perm(len(src.sizes)) {
			s := src.stamp(int64(id))
			if _, _, hit := c.Get(epoch, int64(id), s, out, nil); !hit {
				c.Put(epoch, int64(id), s, in[:s.Size])
			}
		}
	}
	debug.FreeOSMemory()
	fmt.Println(resident()-before, c.Stats().Reserved, limit)
	if err := check(c); err != nil {
		fmt.Println(err)
	}
}

// resident is the process's memory in bytes, without file-backed pages and without what Go
// keeps for its next allocations.
func resident() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	rollup, err := os.ReadFile("/proc/self/smaps_rollup") // exact, unlike status on some kernels
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(rollup), "Anonymous:")
	var kb int64
	fmt.Sscan(after, &kb)
	return kb<<10 - int64(m.HeapIdle-m.HeapReleased)
}

// TestProcessGrowth: a process grows by what the cache charges, within 5 %, and the cache uses its
// whole limit.
func TestProcessGrowth(t *testing.T) {
	if raceEnabled {
		t.Skip("SKIPPED: the race detector takes memory of its own")
	}
	for _, policy := range []Policy{Constant, Static, TinyLFU} {
		for sizes := range sizesOf {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), growInto+"="+policy.String()+" "+sizes)
			out, err := cmd.Output()
			var grown, charged, limit int64
			if n, _ := fmt.Sscan(string(out), &grown, &charged, &limit); err != nil || n != 3 {
				t.Errorf("%s, %s: %v\n%s", policy, sizes, err, out)
				continue
			}
			t.Logf("%s, %s: grown by %d, charged %d of %d", policy, sizes, grown, charged, limit)
			if grown > charged*105/100 || grown < charged*95/100 {
				t.Errorf("%s, %s: grown by %d bytes, charged %d", policy, sizes, grown, charged)
			}
			if charged > limit || charged < limit*97/100 {
				t.Errorf("%s, %s: charged %d of %d", policy, sizes, charged, limit)
			}
			if strings.Count(string(out), "\n") != 1 {
				t.Errorf("%s, %s: %s", policy, sizes, out)
			}
		}
	}
}

// TestTrim: memory returns to the budget and to the system, only as many samples as necessary
// are evicted, and the others stay intact.
func TestTrim(t *testing.T) {
	for _, p := range []Policy{Constant, Static, TinyLFU} {
		t.Run(p.String(), func(t *testing.T) {
			src := unequal(500, 9)
			budget := newAccount(1 << 40)
			c := open(t, Options{
				Policy: p, Limit: 8 << 20, Samples: int64(len(src.sizes)), Budget: budget,
				Plan: planFunc(func(_ int, id int64) bool { return id%2 == 0 }),
			})
			readAll := func(epoch int) {
				for id := range src.sizes {
					read(t, c, epoch, int64(id), src.stamp(int64(id)))
				}
				mustCheck(t, c)
			}
			readAll(0)
			debug.FreeOSMemory() // so that memory freed by the Go heap does not count
			before, held, rss := budget.used.Load(), c.Stats().Samples, resident()
			freed := c.Trim(3 << 20)
			mustCheck(t, c)
			if freed < 3<<20 || freed > 4<<20 || before-budget.used.Load() != freed {
				t.Errorf("%d bytes freed, %d given back", freed, before-budget.used.Load())
			}
			if shrunk := rss - resident(); !raceEnabled && (shrunk < freed*9/10 || shrunk > freed*11/10) {
				t.Errorf("%d bytes freed, the process shrank by %d", freed, shrunk)
			}
			if s := c.Stats(); s.Samples == held || s.Samples == 0 || s.Reserved != budget.used.Load() {
				t.Errorf("%+v after %d samples", s, held)
			}
			readAll(1) // the cache grows again
			if n := budget.used.Load(); n < before*9/10 {
				t.Errorf("%d bytes are charged again, %d were before", n, before)
			}
			if again := c.Trim(1 << 40); again < 5<<20 {
				t.Errorf("%d bytes freed of %d", again, before)
			}
			mustCheck(t, c)
			if s := c.Stats(); s.Samples != 0 || c.Trim(1) != 0 {
				t.Errorf("%+v when all was taken", s)
			}
			readAll(2)
			readAll(3)
			if c.Stats().Samples == 0 {
				t.Error("it does not grow again")
			}
		})
	}
}

// TestRoomIsFoundAtOnce: the sample that can go is found in the same time, however many are held.
// Two readers of distant epochs make room in turn, each with what the other one keeps.
func TestRoomIsFoundAtOnce(t *testing.T) {
	took := func(samples int64) time.Duration { // the fastest of some rounds
		c := open(t, Options{Policy: Constant, Limit: 1<<20 + samples*400, Samples: 1 << 20, Plan: planFunc(func(int, int64) bool { return true })})
		defer c.Close()
		s := Stamp{Size: 100, ModTime: 1}
		data, id := make([]byte, s.Size), int64(0)
		put := func(epoch int) {
			c.Put(epoch, id, s, data)
			id++
		}
		for range 2 * samples { // more than fit
			put(0)
		}
		best := time.Hour
		for range 5 {
			start := time.Now()
			for range 300 {
				put(10)
				put(0)
			}
			best = min(best, time.Since(start))
		}
		return best
	}
	if few, many := took(1<<8), took(1<<18); many > 30*few+30*time.Millisecond {
		t.Errorf("%v with many samples, %v with few", many, few)
	}
}

// TestTrimSparesTheNextEpoch: samples that wait for epochs far away leave first, then those
// that will be needed last.
func TestTrimSparesTheNextEpoch(t *testing.T) {
	src := equal(40, systemPage)
	c := open(t, Options{Policy: Constant, Limit: 8 << 20, Samples: 40, Plan: planFunc(func(int, int64) bool { return true })})
	for id := range int64(40) {
		read(t, c, []int{3, 4, 5, 20}[id/10], id, src.stamp(id))
	}
	read(t, c, 4, 19, src.stamp(19)) // epoch 4 is being read
	for _, gone := range []int64{30, 20, 10} {
		if c.Trim(10*pageCost) != 10*pageCost || c.Stats().Samples != gone {
			t.Fatalf("not ten pages, or not ten samples: %+v", c.Stats())
		}
		for id := gone; id < gone+10; id++ {
			if c.Holds(id) {
				t.Errorf("sample %d is still there", id)
			}
		}
	}
}

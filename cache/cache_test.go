package cache

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

// unequal are sizes from nothing to a quarter of a megabyte, most of them small.
func unequal(n int, seed uint64) source {
	rng := rand.New(rand.NewPCG(seed, 7))
	s := source{}
	for range n {
		s.sizes = append(s.sizes, int(math.Exp(rng.Float64()*math.Log(256<<10)))-1)
	}
	return s
}

func equal(n, size int) source {
	s := source{sizes: make([]int, n)}
	for i := range s.sizes {
		s.sizes[i] = size
	}
	return s
}

func TestOptions(t *testing.T) {
	plan := planFunc(func(int, int64) bool { return true })
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Policy: TinyLFU + 1, Limit: 1 << 20, Samples: 1}, "policy"},
		{Options{Policy: Static, Limit: -1, Samples: 1}, "-1"},
		{Options{Policy: Static, Limit: MaxLimit + 1, Samples: 1}, "limit"},
		{Options{Policy: Static, Limit: 1 << 20}, "samples"},
		{Options{Policy: Static, Limit: 1 << 20, Samples: 1 << 31}, "samples"},
		{Options{Policy: Constant, Limit: 1 << 20, Samples: 1}, "plan"},
		{Options{Policy: Static, Limit: 1000, Samples: 1}, errNoMemory.Error()},
		{Options{Policy: Static, Limit: 1 << 20, Samples: 1, Budget: newAccount(1000)}, errNoMemory.Error()},
		{Options{Policy: Constant, Limit: 1 << 20, Samples: 1, Plan: plan}, ""},
		{Options{Policy: TinyLFU, Limit: 8 << 20, Samples: 1000}, ""},
	} {
		cache, err := New(c.o)
		if c.want == "" && err == nil && cache != nil {
			cache.Close()
		} else if c.want == "" || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v", c.o, err)
		}
	}
	for _, p := range []Policy{None, Constant, Static, TinyLFU} {
		if policyNamed(p.String()) != p {
			t.Errorf("%s is also the name of %d", p, policyNamed(p.String()))
		}
	}
}

// TestMostSamples: a cache may have as many samples as there are numbers for them.
func TestMostSamples(t *testing.T) {
	const table = 100 << 30 // address space that it makes usable, and hardly touches
	var data unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &data); err != nil || data.Cur < table {
		t.Skipf("SKIPPED: its table has no place under the limit on data, %d bytes (%v)", data.Cur, err)
	}
	open(t, Options{Policy: Static, Limit: 1 << 40, Samples: math.MaxInt32})
}

// TestNone: a nil cache keeps nothing.
func TestNone(t *testing.T) {
	for _, o := range []Options{{Policy: None, Limit: 1 << 30, Samples: 5}, {Policy: Static, Samples: 5}} {
		c := open(t, o)
		if c != nil {
			t.Fatalf("%+v: not nil", o)
		}
		for epoch := range 2 {
			if read(t, c, epoch, 3, Stamp{Size: 10}) {
				t.Error("a hit")
			}
		}
		if _, _, ok := c.Peek(3, Stamp{Size: 10}, nil, nil); ok || c.Holds(3) || c.Trim(1000) != 0 || c.Stats().Reserved != 0 {
			t.Error("it holds something")
		}
		c.Drop(3)
	}
}

// TestJumps: samples that wait for epochs far from the current reads give way when room is
// needed, and only then.
func TestJumps(t *testing.T) {
	const n, size = 200, 10_000
	src := equal(n, size)
	full := open(t, Options{Policy: Static, Limit: 1 << 20, Samples: n})
	for id := range int64(n) {
		read(t, full, 0, id, src.stamp(id))
	}
	half := full.Stats().Samples                                  // at least as many as fit
	low := func(epoch int) int64 { return half * int64(epoch%2) } // the first sample that an epoch keeps
	c := open(t, Options{
		Policy: Constant, Limit: 1 << 20, Samples: n,
		Plan: planFunc(func(epoch int, id int64) bool { return id >= low(epoch) && id < low(epoch)+half }),
	})
	epoch := func(e int) {
		for i := range half { // one sample leaves, one arrives
			read(t, c, e, low(e+1)+i, src.stamp(low(e+1)+i))
			read(t, c, e, low(e)+i, src.stamp(low(e)+i))
		}
		mustCheck(t, c)
	}
	last := func() EpochStats {
		all := c.Stats().Epochs
		return all[len(all)-1]
	}
	want := func(what string, e, hits, kept, notKept int64) {
		t.Helper()
		if s := last(); s != (EpochStats{int(e), hits, 2*half - hits, kept, kept * size, notKept, 0}) {
			t.Errorf("%s: %+v; %d fit", what, s, half)
		}
	}
	epoch(0)
	want("first", 0, 0, half, 0)
	epoch(1)
	want("next", 1, half, half, 0)
	epoch(12) // keeps the samples that wait for epoch 2: they are relabelled
	want("far ahead", 12, half, half, 0)
	epoch(13)
	want("one further", 13, half, half, 0)
	epoch(3) // backwards; the samples that wait for epoch 14 are relabelled too
	want("back", 3, half, half, 0)
	for i := range half { // these wait for epoch 5, and do not fit
		read(t, c, 4, low(4)+i, src.stamp(low(4)+i))
	}
	if s := last(); s.Epoch != 4 || s.NotKept != half || s.Kept != 0 {
		t.Errorf("near epochs take each other's room: %+v", s)
	}
	for i := range half { // the held samples wait for nothing near epoch 8
		read(t, c, 8, low(8)+i, src.stamp(low(8)+i))
	}
	if s := last(); s.Epoch != 8 || s.NotKept != 0 || s.Kept != half {
		t.Errorf("far epochs do not give way: %+v", s)
	}
	mustCheck(t, c)
}

func TestStaticKeepsWhatCameFirst(t *testing.T) {
	const n, size = 300, 9000
	src := equal(n, size)
	fit := Room(Static, 1<<20, n) / Cost(size)
	c := open(t, Options{Policy: Static, Limit: 1 << 20, Samples: n})
	order := rand.New(rand.NewPCG(1, 1)).Perm(n)
	for _, id := range order {
		read(t, c, 0, int64(id), src.stamp(int64(id)))
	}
	held := c.Stats().Samples
	if held < fit || held > fit+2 {
		t.Errorf("%d samples are held, %d should fit", held, fit)
	}
	for epoch := 1; epoch < 4; epoch++ {
		hits := int64(0)
		for k, id := range order {
			hit := read(t, c, epoch, int64(id), src.stamp(int64(id)))
			if hit != (int64(k) < held) {
				t.Fatalf("epoch %d: sample %d, read as number %d, hit %t", epoch, id, k, hit)
			}
			if hit {
				hits++
			}
		}
		want := EpochStats{Epoch: epoch, Hits: hits, Misses: n - hits, Kept: hits, KeptBytes: hits * size, NotKept: n - hits}
		if s := c.Stats().Epochs[epoch]; s != want {
			t.Errorf("%+v, want %+v", s, want)
		}
	}
}

// TestTooLarge: a sample larger than the cache is not kept but counted, and evicts nothing.
func TestTooLarge(t *testing.T) {
	src := source{sizes: []int{100_000, 3 << 20, 100_000}}
	for _, p := range []Policy{Constant, Static, TinyLFU} {
		c := open(t, Options{Policy: p, Limit: 2 << 20, Samples: 3, Plan: planFunc(func(int, int64) bool { return true })})
		for _, epoch := range []int{0, 1, 50} {
			for id := range int64(3) {
				if hit := read(t, c, epoch, id, src.stamp(id)); hit != (epoch > 0 && id != 1) {
					t.Errorf("%s: epoch %d, sample %d: hit %t", p, epoch, id, hit)
				}
			}
			mustCheck(t, c)
		}
		for _, s := range c.Stats().Epochs {
			if s.NotKept != 1 || s.Kept != 2 || s.KeptBytes != 200_000 {
				t.Errorf("%s: %+v", p, s)
			}
		}
		if s := c.Stats(); s.MaxReal != 100_000 || s.Real != 200_000 || s.Samples != 2 {
			t.Errorf("%s: %+v", p, s)
		}
	}
}

// TestChangedFile: a sample is served only under its own stamp.
func TestChangedFile(t *testing.T) {
	was := Stamp{Size: 5000, ModTime: 1}
	for _, p := range []Policy{Constant, Static, TinyLFU} {
		for name, now := range map[string]Stamp{"touched": {5000, 2}, "shorter": {4000, 1}, "longer": {60_000, 3}} {
			c := open(t, Options{Policy: p, Limit: 2 << 20, Samples: 3, Plan: planFunc(func(int, int64) bool { return true })})
			read(t, c, 0, 2, was)
			if !c.Holds(2) || !read(t, c, 1, 2, was) {
				t.Fatal("not kept")
			}
			if read(t, c, 1, 2, now) {
				t.Errorf("%s, %s: an old version was served", p, name)
			}
			if !read(t, c, 2, 2, now) || read(t, c, 2, 2, was) {
				t.Errorf("%s, %s: not the new version", p, name)
			}
			mustCheck(t, c)
			// A sample that was not requested before it was put again.
			c.Put(3, 2, now, content(2, now))
			if got, _, ok := c.Peek(2, now, nil, func(n int) []byte { return make([]byte, n) }); !ok || verify(got, 2, now) >= 0 {
				t.Errorf("%s, %s: put over an old version", p, name)
			}
			if _, _, ok := c.Peek(2, was, nil, func(n int) []byte { return make([]byte, n) }); ok || c.Holds(2) {
				t.Errorf("%s, %s: Peek left another version", p, name)
			}
			mustCheck(t, c)
		}
	}
}

func TestBuffers(t *testing.T) {
	s := Stamp{Size: 10_000, ModTime: 1}
	c := open(t, Options{Policy: Constant, Limit: 1 << 20, Samples: 3, Plan: planFunc(func(e int, _ int64) bool { return e == 0 })})
	c.Put(0, 1, s, content(1, s))
	asked := 0
	refuse := func(n int) []byte { asked = n; return nil }
	if _, _, ok := c.Get(1, 1, s, make([]byte, 9999), refuse); ok || asked != 10_000 {
		t.Errorf("no memory given, %d asked for", asked)
	}
	if _, _, ok := c.Get(1, 1, s, nil, nil); ok {
		t.Error("no memory at all")
	}
	if !c.Holds(1) || c.Stats().Epochs[0].Hits != 0 || len(c.Stats().Epochs) != 1 {
		t.Errorf("a reader without memory consumed the sample: %+v", c.Stats())
	}
	asked = 0
	buf := make([]byte, 0, 10_000)
	got, _, ok := c.Get(1, 1, s, buf, refuse)
	if !ok || asked != 0 || len(got) != 10_000 || &got[0] != &buf[:1][0] || verify(got, 1, s) >= 0 {
		t.Errorf("with a buffer: %d bytes, %d asked for", len(got), asked)
	}
	if c.Holds(1) {
		t.Error("the plan keeps nothing in epoch 1")
	}
	mustCheck(t, c)
	defer func() {
		if recover() == nil {
			t.Error("a sample of another length than its stamp's was taken")
		}
	}()
	c.Put(0, 1, s, make([]byte, 9999))
}

// TestEpochsAreBounded: the per-epoch counters do not grow with the number of epochs.
func TestEpochsAreBounded(t *testing.T) {
	var m meter
	for epoch := range 10 * maxEpochs {
		m.epoch(epoch).Hits++
	}
	if n := len(m.epochs); n != maxEpochs || cap(m.epochs) > 2*maxEpochs || m.epochs[n-1].Epoch != 10*maxEpochs-1 {
		t.Errorf("%d epochs, room for %d, the last is %d", n, cap(m.epochs), m.epochs[n-1].Epoch)
	}
}

// TestUnknownIsNotKept: a sample read before the plan knows is not kept but counted, whether it
// came from storage or from the cache; a sample read afterwards is kept.
func TestUnknownIsNotKept(t *testing.T) {
	plan := latePlan{known: map[int]bool{0: true}}
	c := open(t, Options{Policy: Constant, Limit: 1 << 20, Samples: 4, Plan: plan})
	defer c.Close()
	s := source{sizes: []int{100, 200, 300, 400}}
	read(t, c, 0, 0, s.stamp(0))
	read(t, c, 0, 1, s.stamp(1))
	if !read(t, c, 1, 0, s.stamp(0)) {
		t.Error("sample 0 was not kept from epoch 0, whose plan is known")
	}
	read(t, c, 1, 2, s.stamp(2))
	c.Missed(1, 3)
	for _, id := range []int64{0, 2, 3} {
		if c.Holds(id) || c.Wants(1, id) {
			t.Errorf("sample %d is kept from epoch 1, whose plan is not known", id)
		}
	}
	plan.known[1] = true
	if !read(t, c, 1, 1, s.stamp(1)) || !c.Holds(1) {
		t.Error("sample 1 is not kept, though the plan of epoch 1 is known by now")
	}
	c.Missed(1, 3) // not offered because Wants said no, before the plan was known
	for _, e := range c.Stats().Epochs {
		want := EpochStats{Epoch: 0, Misses: 2, Kept: 2, KeptBytes: 300}
		if e.Epoch == 1 {
			want = EpochStats{Epoch: 1, Hits: 2, Misses: 3, Kept: 1, KeptBytes: 200, Unplanned: 4}
		}
		if e != want {
			t.Errorf("counted %+v, want %+v", e, want)
		}
	}
}

// FuzzPlan drives a cache of policy Constant through reads in any order, of any epoch, and compares
// it with a model that has unlimited memory. The comparison ends when something does not fit.
func FuzzPlan(f *testing.F) {
	f.Add([]byte{0, 1, 2, 16, 17, 18, 33, 34, 0x8f, 0xf3})
	f.Add([]byte("the plan says what is kept, by any reader, and in which order"))
	for seed := range uint64(30) {
		steps, rng := make([]byte, 400), rand.New(rand.NewPCG(seed, 2))
		for i := range steps {
			steps[i] = byte(i/40+rng.IntN(3))<<4 | byte(rng.IntN(16)) // readers at three epochs, which advance
		}
		f.Add(steps)
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		const n = 16
		keep := func(epoch int, id int64) bool { return (int64(epoch)*5+id*id)%3 == 0 }
		c := open(t, Options{Policy: Constant, Limit: 1 << 20, Samples: n, Plan: planFunc(keep)})
		defer c.Close()
		waits := map[int64]int{} // sample -> the epoch it waits for
		changed := map[int64]int64{}
		for _, step := range steps {
			epoch, id := int(step>>4), int64(step&15)
			s := Stamp{Size: 1 + id*700, ModTime: changed[id]}
			if epoch == 15 {
				changed[id]++
				continue
			}
			w, held := waits[id]
			if held && w>>8 != int(s.ModTime) {
				held = false // another version, which is evicted
				delete(waits, id)
			}
			w &= 255
			if hit := read(t, c, epoch, id, s); hit != held {
				t.Fatalf("epoch %d, sample %d: hit %t, held %t", epoch, id, hit, held)
			}
			stale := held && (w < epoch-1 || w > epoch+2)
			switch {
			case keep(epoch, id):
				if !held || stale || w <= epoch {
					waits[id] = int(s.ModTime)<<8 | (epoch + 1)
				}
			case stale || held && w == epoch:
				delete(waits, id)
			}
			if c.Holds(id) != (waits[id] != 0) {
				t.Fatalf("after epoch %d, sample %d: held %t, should wait for %d", epoch, id, c.Holds(id), waits[id])
			}
		}
		testkit.Must(t, check(c))
		if got := c.Stats().Samples; got != int64(len(waits)) {
			// The cache may still hold a version that was not requested since the file changed.
			t.Fatalf("%d samples are held, %d should", got, len(waits))
		}
	})
}

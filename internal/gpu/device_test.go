package gpu_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/fakegpu"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

func slot(t *testing.T, d *gpu.Device, n int64) *gpu.Slot {
	t.Helper()
	s, err := d.Slot(n)
	if err != nil {
		t.Fatalf("a slot of %d bytes: %v", n, err)
	}
	return s
}

func fill(d *gpu.Device, s *gpu.Slot, from []byte) error {
	return d.Run(gpu.Run{Put: []gpu.Put{{To: s.Address(), From: from}}})
}

// TestSlotsAreApart: slots in use never overlap, are aligned, and keep their content; when all are
// released, each slab is whole again.
func TestSlotsAreApart(t *testing.T) {
	g := &fakegpu.GPU{Memory: 64 << 20}
	d := gpu.New(g, gpu.Options{Limit: 4 << 20, Growth: 1.5})
	defer d.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	type use struct {
		slot  *gpu.Slot
		bytes []byte
	}
	var used []use
	refused := 0
	for range 2000 {
		if len(used) > 0 && rng.IntN(5) < 2 {
			i := rng.IntN(len(used))
			u := used[i]
			handle, offset := u.slot.Place()
			if got := g.Read(handle, offset, int64(len(u.bytes))); !bytes.Equal(got, u.bytes) {
				t.Fatal("a slot holds something else")
			}
			u.slot.Release()
			used = slices.Delete(used, i, i+1)
			continue
		}
		u := use{bytes: bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(256<<10))}
		s, err := d.Slot(int64(len(u.bytes)))
		if errors.Is(err, gpu.ErrFull) {
			refused++
			continue
		}
		testkit.Must(t, err)
		if _, offset := s.Place(); offset%512 != 0 {
			t.Fatal("not aligned")
		}
		testkit.Must(t, fill(d, s, u.bytes))
		u.slot = s
		used = append(used, u)
	}
	if refused == 0 {
		t.Error("the limit was never reached")
	}
	for _, u := range used {
		u.slot.Release()
	}
	if s := d.Stats(); s.Real != 0 || s.Reserved > s.Limit || s.MaxReal > 256<<10 {
		t.Errorf("%+v", s)
	}
	largest := slot(t, d, 2<<20) // in one piece
	largest.Release()
}

func TestSlabsGrow(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		growth  float64
		limit   int64
		first   int // slots of the first slab
		asks    []int64
		reserve []int64 // after each of them
	}{
		{0, 100 * mib, 0, []int64{1, 2 * mib, 3 * mib}, []int64{2 * mib, 4 * mib, 8 * mib}},
		{1.5, 100 * mib, 0, []int64{8 * mib, 2 * mib, 2 * mib, 1}, []int64{8 * mib, 12 * mib, 12 * mib, 18 * mib}},
		{4, 12 * mib, 0, []int64{4 * mib, 2 * mib}, []int64{4 * mib, 6 * mib}}, // no room for more
		{1, 100 * mib, 3, []int64{3 * mib, 3 * mib, 3 * mib, 3 * mib}, []int64{10 * mib, 10 * mib, 10 * mib, 14 * mib}},
		{1, 4 * mib, 3, []int64{3 * mib}, []int64{4 * mib}},
	} {
		d := gpu.New(&fakegpu.GPU{Memory: 1 << 30}, gpu.Options{Limit: c.limit, Growth: c.growth})
		if c.first > 0 {
			d.Presize(3*mib, c.first)
		}
		for i, n := range c.asks {
			slot(t, d, n)
			if got := d.Stats().Reserved; got != c.reserve[i] {
				t.Errorf("%+v: %d after request %d", c, got, i)
			}
		}
		d.Close()
	}
}

// TestRefusals: a temporary refusal is ErrFull, a permanent one ErrMemory, with the limit in its
// text.
func TestRefusals(t *testing.T) {
	d := gpu.New(&fakegpu.GPU{Memory: 12 << 20}, gpu.Options{}) // half of it: 6 MiB
	defer d.Close()
	if _, err := d.Slot(7 << 20); !errors.Is(err, gpu.ErrMemory) {
		t.Error(err)
	}
	a := slot(t, d, 4<<20)
	if _, err := d.Slot(4 << 20); !errors.Is(err, gpu.ErrFull) {
		t.Error(err)
	}
	for range 2 { // 4 MiB are mapped elsewhere for ever, whether or not they are in use
		if _, err := d.Slot(6 << 20); !errors.Is(err, gpu.ErrMemory) {
			t.Error(err)
		}
		if a != nil {
			a.Release()
			a = nil
		}
	}
	slot(t, d, 4<<20)

	hogged := gpu.New(&fakegpu.GPU{Memory: 2 << 20}, gpu.Options{Limit: 100 << 20})
	defer hogged.Close()
	if _, err := hogged.Slot(4 << 20); !errors.Is(err, gpu.ErrMemory) {
		t.Error(err)
	}
	b := slot(t, hogged, 2<<20)
	if _, err := hogged.Slot(2 << 20); !errors.Is(err, gpu.ErrFull) {
		t.Error(err)
	}
	b.Release()
	slot(t, hogged, 2<<20)
}

// TestLimitFollowsTheGPU: without a limit in the options, memory that other programs free on the
// GPU is used, and memory that they take is left to them.
func TestLimitFollowsTheGPU(t *testing.T) {
	g := &fakegpu.GPU{Memory: 4 << 20}
	d := gpu.New(g, gpu.Options{})
	defer d.Close()
	for _, c := range []struct {
		memory int64 // that others do not have
		err    error
		limit  int64
	}{{4 << 20, nil, 2 << 20}, {4 << 20, gpu.ErrFull, 2 << 20}, {9 << 20, nil, 9 << 19}, {9 << 20, gpu.ErrFull, 9 << 19}, {5 << 20, gpu.ErrFull, 4 << 20}} {
		g.Memory = c.memory
		if _, err := d.Slot(2 << 20); !errors.Is(err, c.err) || d.Stats().Limit != c.limit {
			t.Errorf("%+v: %v, limit %d", c, err, d.Stats().Limit)
		}
	}
}

func TestSlotsAtOnce(t *testing.T) {
	g := &fakegpu.GPU{Memory: 1 << 30}
	d := gpu.New(g, gpu.Options{})
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 200 {
				s, err := d.Slot(300 << 10)
				if err != nil {
					t.Error(err)
					return
				}
				s.Release()
			}
		})
	}
	wait.Wait()
	if s := d.Stats(); s.Real != 0 || s.Reserved > 4<<20 {
		t.Errorf("%+v", s)
	}
	if err := errors.Join(d.Close(), d.Close(), g.Left()); err != nil {
		t.Error(err)
	}
	if _, err := d.Slot(1); !errors.Is(err, gpu.ErrLost) {
		t.Error(err)
	}
}

func TestReleasedTwice(t *testing.T) {
	d := gpu.New(&fakegpu.GPU{Memory: 1 << 30}, gpu.Options{})
	defer d.Close()
	s := slot(t, d, 1)
	s.Hold()
	s.Release()
	if d.Stats().Real != 1 {
		t.Error("a slot that is held was given back")
	}
	s.Release()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	s.Release()
}

// TestLost: after the GPU is lost, the driver is not called any more.
func TestLost(t *testing.T) {
	lost := false
	g := &fakegpu.GPU{Memory: 1 << 30}
	g.Fail = func(call string) error {
		if lost && call != "Close" {
			t.Errorf("%s was called", call)
		}
		if call == "Run" {
			lost = true
			return gpu.ErrLost
		}
		return nil
	}
	d := gpu.New(g, gpu.Options{})
	memory := make([]byte, 100)
	testkit.Must(t, d.Register(memory))
	s := slot(t, d, 100)
	for range 2 {
		if err := fill(d, s, memory); !errors.Is(err, gpu.ErrLost) {
			t.Error(err)
		}
	}
	if _, err := d.Slot(1); !errors.Is(err, gpu.ErrLost) || !errors.Is(d.Stats().Lost, gpu.ErrLost) {
		t.Error(err, d.Stats())
	}
	d.Unregister(memory)
	s.Release()
	if err := d.Close(); err != nil || d.Stats().Reserved != 0 {
		t.Error(err, d.Stats())
	}
}

// TestRoomWhileTheDriverIsAsked: a slot that is released just before a request is refused serves
// that request.
func TestRoomWhileTheDriverIsAsked(t *testing.T) {
	var held *gpu.Slot
	g := &fakegpu.GPU{Memory: 5 << 20, Fail: func(call string) error {
		if call == "Free" && held != nil {
			held.Release()
			held = nil
		}
		return nil
	}}
	d := gpu.New(g, gpu.Options{})
	defer d.Close()
	first := slot(t, d, 2<<20)
	held = first
	slot(t, d, 2<<20).Release()
}

// TestRoomToWork: the GPU works in memory of its own, which gives way to batches unless nvJPEG
// needs it.
func TestRoomToWork(t *testing.T) {
	if !fakegpu.Kernels {
		t.Skip("SKIPPED: the GPU's kernels need cgo here")
	}
	for _, nvjpeg := range []bool{false, true} {
		d := gpu.New(&fakegpu.GPU{Memory: 1 << 30}, gpu.Options{Limit: 4 << 20})
		defer d.Close()
		if nvjpeg {
			if _, err := d.OpenNVJPEG(false); err != nil {
				t.Fatal(err)
			}
		}
		makeOne(t, d)
		first := slot(t, d, 2<<20)
		makeOne(t, d)
		second, err := d.Slot(2 << 20)
		want := error(nil)
		if nvjpeg {
			want = gpu.ErrFull
		}
		if !errors.Is(err, want) {
			t.Fatalf("nvJPEG %t: %v", nvjpeg, err)
		}
		if first.Release(); nvjpeg {
			makeOne(t, d)
		} else {
			second.Release()
		}
		if s := d.Stats(); s.Reserved != 4<<20 || s.Real != 0 {
			t.Errorf("nvJPEG %t: %+v", nvjpeg, s)
		}
	}
}

// makeOne makes a batch of one small image.
func makeOne(t *testing.T, d *gpu.Device) {
	t.Helper()
	converter, err := layout.NewConverter(layout.Uint8, 3, layout.Normalization{})
	testkit.Must(t, err)
	spec, err := layout.NewSpec(1, 8, 8, 3, layout.Uint8, layout.NHWC)
	testkit.Must(t, err)
	head := decode.Header{Format: decode.PNG, Width: 8, Height: 8, Orientation: 1}
	job := pixels.Options{}.Plan(head, resample.Options{Mode: resample.Stretch, Height: 8, Width: 8}.Choose(0, 0, 8, 8), pixels.Target{})
	p, err := gpu.NewPlan(gpu.Tensor{Spec: spec, Converter: converter}, []gpu.Sample{{Job: job}})
	testkit.Must(t, err)
	host := make([]byte, p.Host())
	p.Put(host, 0)
	if _, _, err := d.Make(p, host); err != nil {
		t.Fatal(err)
	}
}

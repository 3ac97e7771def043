package engine

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/fakegpu"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/machine"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// onDevice starts an engine with a GPU. When the test ends, nothing may be left on it.
func onDevice(t testing.TB, dir string, g *fakegpu.GPU, limit int64, change ...func(*Options)) *Engine {
	t.Helper()
	if g.Memory == 0 {
		g.Memory = 1 << 30
	}
	d := gpu.New(g, gpu.Options{Limit: limit})
	e := start(t, dir, append([]func(*Options){func(o *Options) { o.Device = d }}, change...)...)
	t.Cleanup(func() {
		e.Close()
		if used := d.Stats().Real; used != 0 {
			t.Errorf("%d bytes of slots are still in use", used)
		}
		d.Close()
		if err := g.Left(); err != nil && g.Fail == nil {
			t.Error(err)
		}
	})
	return e
}

type cudaDocument struct {
	Device, Handle, DType, Layout string
	Offset, Bytes                 int64
	Shape                         [4]int
	Valid                         int
}

// place parses a file of the form CUDA.
func place(t testing.TB, file []byte) (d cudaDocument, handle [64]byte) {
	t.Helper()
	if len(file) != layout.Page {
		t.Fatalf("a file of %d bytes", len(file))
	}
	testkit.Must(t, json.Unmarshal(file, &d))
	if n, err := hex.Decode(handle[:], []byte(d.Handle)); err != nil || n != len(handle) {
		t.Fatalf("handle %q: %v", d.Handle, err)
	}
	return d, handle
}

// tensorOf reads an open file of the form CUDA as another process does.
func tensorOf(t testing.TB, g *fakegpu.GPU, f *File) []byte {
	t.Helper()
	d, handle := place(t, f.Bytes())
	return g.Read(handle, d.Offset, d.Bytes)
}

// open opens a batch for the test to close.
func open(t testing.TB, e *Engine, k Key, form layout.Form) *File {
	t.Helper()
	f, err := e.Open(context.Background(), k, form)
	if err != nil {
		t.Fatalf("%s.%s: %v", k, form.Ext(), err)
	}
	return f
}

// opens opens a batch and closes it.
func opens(e *Engine, k Key, form layout.Form) error {
	f, err := e.Open(context.Background(), k, form)
	if err == nil {
		f.Close()
	}
	return err
}

// fails opens a batch, and expects an error of that kind.
func fails(t testing.TB, e *Engine, k Key, form layout.Form, want error) {
	t.Helper()
	if err := opens(e, k, form); !errors.Is(err, want) {
		t.Errorf("%s.%s: the open says %v, want %v", k, form.Ext(), err, want)
	}
}

// TestDeviceHasTheSameBytes reads epochs from a GPU in several ways.
func TestDeviceHasTheSameBytes(t *testing.T) {
	dir := testDir(t, 23)
	for _, dtype := range []layout.DType{layout.Uint8, layout.Float16, layout.BFloat16, layout.Float32} {
		for _, order := range []layout.Order{layout.NHWC, layout.NCHW} {
			for _, depth := range []int{0, 2} {
				g := &fakegpu.GPU{}
				e := onDevice(t, dir, g, 0, func(o *Options) { o.DType, o.Layout, o.PrefetchDepth = dtype, order, depth })
				for i, k := range allKeys(e) {
					if i%4 == 3 { // made in the other order first
						other := open(t, e, k, []layout.Form{layout.NCHWForm, layout.NHWCForm}[order])
						defer other.Close()
					}
					f := open(t, e, k, layout.CUDA)
					d, _ := place(t, f.Bytes())
					spec := e.catalog.Spec(k)
					if d.Device != g.UUID() || d.DType != dtype.String() || d.Layout != order.String() || d.Shape != spec.Shape() || d.Valid != e.catalog.Valid(k) {
						t.Fatalf("%s: %+v", k, d)
					}
					if !bytes.Equal(tensorOf(t, g, f), read(t, e, k, e.catalog.TensorForm())) {
						t.Fatalf("%v %v depth %d: %s has other bytes on the GPU", dtype, order, depth, k)
					}
					f.Close()
				}
				if g.Fast != g.Put {
					t.Errorf("%d of %d bytes came from memory that is not registered", g.Put-g.Fast, g.Put)
				}
			}
		}
	}
}

// TestDeviceIsShared: readers of one batch, at once or one after another, have one slot, and the
// next batches are there before they are opened.
func TestDeviceIsShared(t *testing.T) {
	g := &fakegpu.GPU{}
	e := onDevice(t, testDir(t, 40), g, 0)
	var wait sync.WaitGroup
	files := make([]*File, 8)
	for i := range files {
		wait.Go(func() { files[i] = open(t, e, Key{}, layout.CUDA) })
	}
	wait.Wait()
	for _, f := range files {
		if !bytes.Equal(f.Bytes(), files[0].Bytes()) {
			t.Errorf("%s and %s", f.Bytes(), files[0].Bytes())
		}
		defer f.Close()
	}
	testkit.Must(t, e.Quiet(t.Context()))
	sizeOf := func(batches int) (n int) {
		for b := range batches {
			n += int(e.catalog.Size(Key{Batch: b}, layout.NHWCForm))
		}
		return n
	}
	if g.Put != sizeOf(3) { // one, and two ahead
		t.Errorf("%d bytes were copied of %d", g.Put, sizeOf(3))
	}
	for _, b := range []int{1, 2} {
		open(t, e, Key{Batch: b}, layout.CUDA).Close()
	}
	testkit.Must(t, e.Quiet(t.Context()))
	if g.Put != sizeOf(5) {
		t.Errorf("%d bytes were copied of %d", g.Put, sizeOf(5))
	}
	if slabs := e.opts.Device.Stats(); slabs.Reserved != gpu.SlabUnit {
		t.Errorf("%+v", slabs)
	}
	i := slices.IndexFunc(e.Stats().Buffers, func(b pinned.BufferStats) bool { return b.Kind == pinned.DeviceMemory })
	if b := e.Stats().Buffers[i]; b.Name != "batch" || b.MaxReal == 0 || b.Reserved != gpu.SlabUnit {
		t.Errorf("%+v", b)
	}
}

// largeDir is a dataset whose batches of one image take almost a slab each.
func largeDir(t testing.TB, n int) string {
	dir := t.TempDir()
	for i := range n {
		writePPM(t, samplePath(dir, i), 600, 1000, picture(i, 600, 1000))
	}
	return dir
}

func single(o *Options) { o.BatchSize = 1 }

// TestDeviceMemoryGivesWay: batches that were copied ahead make room for one that an Open waits
// for. Then Opens wait for slots, in their order, and fail after MemoryWait. Other forms are still
// served.
func TestDeviceMemoryGivesWay(t *testing.T) {
	g := &fakegpu.GPU{}
	e := onDevice(t, largeDir(t, 9), g, 3*gpu.SlabUnit, single, func(o *Options) { o.Shards, o.MemoryWait = 3, time.Hour })
	var held []*File
	for s := range 3 { // each reader has two ahead, for which there is less and less room
		held = append(held, open(t, e, Key{Shard: s}, layout.CUDA))
		testkit.Must(t, e.Quiet(t.Context()))
	}
	got := make(chan int, 5)
	waiters := []Key{{Shard: 1, Batch: 1}, {Shard: 0, Batch: 1}, {Shard: 2, Batch: 1}, {Shard: 0, Batch: 2}, {Shard: 1, Batch: 2}}
	var wait sync.WaitGroup
	for i, k := range waiters {
		wait.Go(func() {
			f := open(t, e, k, layout.CUDA)
			if !bytes.Equal(tensorOf(t, g, f), read(t, e, k, layout.NHWCForm)) {
				t.Errorf("%s has other bytes", k)
			}
			got <- i
			f.Close()
		})
		eventually(t, "it waits for memory on the GPU", func() bool { return waitForDevice(e) == i+1 })
	}
	read(t, e, Key{Shard: 2, Epoch: 2}, layout.NHWCForm) // not made yet
	held[0].Close()
	for i := range waiters { // each makes room for the next
		if next := <-got; next != i {
			t.Errorf("open %d got memory as number %d", next, i)
		}
	}
	wait.Wait()
	held[1].Close()
	held[2].Close()
}

// TestDeviceTurnsOfAllSizes: a small batch does not overtake a large one that waits for room.
func TestDeviceTurnsOfAllSizes(t *testing.T) {
	dir := t.TempDir()
	for i := range 6 { // the large ones, in class-0, come first
		h := 600 - i%2*599
		writePPM(t, samplePath(dir, i), h, 1000, picture(i, h, 1000))
	}
	e := onDevice(t, dir, &fakegpu.GPU{}, gpu.SlabUnit, single, func(o *Options) { o.PrefetchDepth, o.MemoryWait = 0, time.Hour })
	held := open(t, e, Key{}, layout.CUDA)
	var wait sync.WaitGroup
	for i, k := range []Key{{Batch: 1}, {Batch: 4}} {
		wait.Go(func() { open(t, e, k, layout.CUDA).Close() })
		eventually(t, "it waits", func() bool { return waitForDevice(e) == i+1 })
	}
	for range 3 { // the large one is tried again and again; the small one could have been served in between
		e.memory.ledger.cameBack()
		returns := e.memory.ledger.returns()
		eventually(t, "the large one is refused again", func() bool {
			return e.locked(func() bool {
				large := e.table[Key{Batch: 1}].copies[layout.CUDA]
				return large.state == wanted && large.triedAt >= returns
			})
		})
	}
	eventually(t, "both wait", func() bool { return waitForDevice(e) == 2 }) // one of them may be being tried just now
	held.Close()
	wait.Wait()
}

// waitForDevice counts the copies that Opens wait for, for lack of memory on the GPU.
func waitForDevice(e *Engine) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range e.schedule.in[wanted] {
		if b.isSent() && b.waiting > 0 {
			n++
		}
	}
	return n
}

func TestDeviceMemoryWaitEnds(t *testing.T) {
	var log bytes.Buffer
	e := onDevice(t, largeDir(t, 4), &fakegpu.GPU{}, gpu.SlabUnit, single, func(o *Options) {
		o.MemoryWait, o.Logger = 20*time.Millisecond, slog.New(slog.NewTextHandler(lockedWriter{new(sync.Mutex), &log}, nil))
		o.Remedy = func(err error) string { return fmt.Sprint("on the GPU: ", errors.Is(err, ErrNoRoomOnGPU)) }
	})
	f := open(t, e, Key{}, layout.CUDA)
	_, err := e.Open(t.Context(), Key{Batch: 1}, layout.CUDA)
	if !errors.Is(err, ErrNoMemory) || !strings.Contains(err.Error(), "on the GPU") {
		t.Error(err)
	}
	read(t, e, Key{Batch: 1}, layout.NHWCForm)
	f.Close()
	e.Close()
	if text := log.String(); !strings.Contains(text, `hint="on the GPU: true"`) {
		t.Errorf("the log says %q", text)
	}
}

// TestDeviceTooSmall: a batch that can never fit fails at once, whatever MemoryWait is.
func TestDeviceTooSmall(t *testing.T) {
	e := onDevice(t, largeDir(t, 4), &fakegpu.GPU{}, gpu.SlabUnit, func(o *Options) { o.BatchSize, o.MemoryWait = 2, time.Hour })
	fails(t, e, Key{}, layout.CUDA, ErrNoMemory)
}

// TestDeviceFails has every call to the driver fail in turn: once, for good, or as it does when the
// GPU is lost. Whatever fails, other forms are served, and no other bytes appear.
func TestDeviceFails(t *testing.T) {
	dir := testDir(t, 16)
	plain := errors.New("CUDA_ERROR_UNKNOWN")
	for _, reason := range []error{plain, gpu.ErrMemory, gpu.ErrLost} {
		for _, forGood := range []bool{false, true} {
			for at, failed := 1, true; failed; at++ {
				failed = failAt(t, dir, at, reason, forGood)
			}
		}
	}
}

func failAt(t *testing.T, dir string, at int, reason error, forGood bool) (failed bool) {
	var mu sync.Mutex
	calls, during := 0, ""
	g := &fakegpu.GPU{Fail: func(call string) error {
		mu.Lock()
		defer mu.Unlock()
		calls++
		if calls < at || calls > at && !forGood && !errors.Is(reason, gpu.ErrLost) {
			return nil
		}
		during = call
		return fmt.Errorf("%s: %w", call, reason)
	}}
	e := onDevice(t, dir, g, 0, func(o *Options) { o.PrefetchDepth = 1 })
	errs := 0
	for _, k := range allKeys(e)[:6] {
		exact := read(t, e, k, layout.NHWCForm)
		f, err := e.Open(context.Background(), k, layout.CUDA)
		if err != nil {
			errs++
			if !errors.Is(err, ErrMachine) && !errors.Is(err, ErrNoMemory) || !errors.Is(err, reason) {
				t.Errorf("%v at call %d: %v", reason, at, err)
			}
			continue
		}
		if !bytes.Equal(tensorOf(t, g, f), exact) {
			t.Fatalf("%v at call %d: other bytes", reason, at)
		}
		f.Close()
	}
	e.Close()
	lines := e.Errors()
	if errs > 0 && len(lines) == 0 || len(lines) > max(errs, 1) {
		t.Errorf("%v at call %d (%s): %d opens failed, and errors.jsonl has %d lines", reason, at, during, errs, len(lines))
	}
	if errors.Is(reason, gpu.ErrLost) && len(lines) > 1 {
		t.Errorf("a lost GPU was reported %d times", len(lines))
	}
	return during != ""
}

// TestDeviceOpenIsInterrupted: a copy whose opener was interrupted ends with its source in
// place.
func TestDeviceOpenIsInterrupted(t *testing.T) {
	begun, goOn := make(chan struct{}, 100), make(chan struct{})
	g := &fakegpu.GPU{Begin: func(gpu.Run) { begun <- struct{}{}; <-goOn }}
	e := onDevice(t, testDir(t, 8), g, 0, func(o *Options) { o.PrefetchDepth = 0 })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := e.Open(ctx, Key{}, layout.CUDA)
		ended <- err
	}()
	<-begun
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// The batch is dropped, too, while its pixels are being copied.
	e.mu.Lock()
	if b := e.table[Key{}]; b != nil && b.refs == 0 {
		e.discard(b)
	}
	e.mu.Unlock()
	if e.memory.pool.Stats().Real == 0 {
		t.Error("the pixels were given away while they were being copied")
	}
	close(goOn)
	f := open(t, e, Key{}, layout.CUDA)
	defer f.Close()
	if !bytes.Equal(tensorOf(t, g, f), read(t, e, Key{}, layout.NHWCForm)) {
		t.Error("other bytes")
	}
}

// TestCloseWhileTheDeviceHangs: a driver that never answers holds up neither Close nor other forms.
func TestCloseWhileTheDeviceHangs(t *testing.T) {
	t.Parallel() // it waits
	begun, goOn := make(chan struct{}, 100), make(chan struct{})
	g := &fakegpu.GPU{Begin: func(gpu.Run) { begun <- struct{}{}; <-goOn }}
	e := onDevice(t, testDir(t, 8), g, 0, func(o *Options) { o.PrefetchDepth = 0 })
	ended := make(chan error)
	go func() {
		_, err := e.Open(context.Background(), Key{}, layout.CUDA)
		ended <- err
	}()
	<-begun
	read(t, e, Key{Batch: 1}, layout.PNG)
	if err := e.Close(); !errors.Is(err, ErrLeftBehind) || !strings.Contains(err.Error(), "batch-00000.cuda") {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	close(goOn)
	eventually(t, "what was left behind is freed", func() bool { return e.opts.Device.Stats().Real == 0 })
	eventually(t, "its registration, too", func() bool { return g.Left() == nil || e.memory.pool.Stats().Buffers == 0 })
}

// TestDeviceThreadsNearIt: if that is wanted, all calls to the GPU's driver come from the CPUs near
// the GPU.
func TestDeviceThreadsNearIt(t *testing.T) {
	cpus, err := machine.CurrentCPUs()
	testkit.Must(t, err)
	if len(cpus) < 2 {
		t.Skip("SKIPPED: with one CPU, no thread has a choice")
	}
	near := cpus[len(cpus)-1:]
	for _, decode := range []bool{false, true} {
		var mu sync.Mutex
		calls, elsewhere := 0, map[string]machine.CPUs{}
		var e *Engine
		g := &fakegpu.GPU{Fail: func(call string) error {
			on, err := machine.CurrentCPUs()
			mu.Lock()
			defer mu.Unlock()
			if calls++; err != nil || !slices.Equal(on, near) {
				elsewhere[call] = on
			}
			return nil
		}}
		e = onDevice(t, testDir(t, 32), g, 64<<20, func(o *Options) { o.NearDevice, o.DecodeOnDevice = near, decode })
		mu.Lock()
		calls, elsewhere = 0, map[string]machine.CPUs{} // except the calls that start it
		mu.Unlock()
		f := open(t, e, Key{}, layout.CUDA)
		mu.Lock()
		if calls == 0 || len(elsewhere) > 0 {
			t.Errorf("decoding there: %t: %d calls, from elsewhere: %v", decode, calls, elsewhere)
		}
		mu.Unlock()
		f.Close()
	}
}

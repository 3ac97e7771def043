package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/fakegpu"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// A gate makes calls hang from when it is shut until it is opened.
type gate struct {
	mu    sync.Mutex
	hangs func(what any) bool // nil: nothing hangs
	begun chan struct{}
	open  chan struct{}
}

func newGate() *gate { return &gate{begun: make(chan struct{}, 1000), open: make(chan struct{})} }

func (g *gate) shut(hangs func(what any) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hangs = hangs
}

// pass reports whether the call has hung.
func (g *gate) pass(what any) (hangs bool) {
	g.mu.Lock()
	hangs = g.hangs != nil && g.hangs(what)
	g.mu.Unlock()
	if hangs {
		g.begun <- struct{}{}
		<-g.open
	}
	return hangs
}

// impatient makes host forms wait so briefly that the GPU sometimes does not answer in time.
func impatient(e *Engine) {
	e.locked(func() bool { e.device.wait = 20 * time.Millisecond; return true })
}

// mixedDir is a dataset of which a GPU decodes only the JPEGs.
func mixedDir(t *testing.T, jpegs, others int) string {
	dir := jpegDir(t, jpegs)
	for i := range others {
		writePPM(t, filepath.Join(dir, string(rune('a'+i))+".ppm"), 20, 30, picture(i, 20, 30))
	}
	return dir
}

func mixed(o *Options) {
	o.BatchSize, o.Epochs, o.Shuffle, o.PrefetchDepth = 8, 2, true, 0
	o.Transform = resample.Options{Mode: resample.Stretch, Height: 100, Width: 140}
}

// closeLeaves checks that Close returns, and says that it leaves something behind.
func closeLeaves(t *testing.T, e *Engine) {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	select {
	case err := <-closed:
		if !errors.Is(err, ErrLeftBehind) {
			t.Errorf("Close says %v", err)
		}
	case <-time.After(patience):
		t.Error("Close does not return")
	}
}

// left checks that Close leaves something behind, and that this is freed once the GPU answers.
func left(t *testing.T, e *Engine, g *gate) {
	t.Helper()
	closeLeaves(t, e)
	close(g.open)
	eventually(t, "what was left behind is freed", func() bool {
		s := e.memory.pool.Stats()
		return e.opts.Device.Stats().Real == 0 && s.Buffers == 0 && s.Leaving == 0
	})
	e.batches.wait.Wait()
}

// TestHostFormsDoNotHangWithTheGPU: whatever a GPU hangs at while it makes samples of a batch,
// processors make the host forms, later writes of the GPU go nowhere, and open files stay.
func TestHostFormsDoNotHangWithTheGPU(t *testing.T) {
	dir := mixedDir(t, 40, 8)
	want := tensors(t, start(t, dir, mixed))
	for name, at := range map[string]func(gpu.Run) bool{
		"making": func(r gpu.Run) bool { return len(r.Launches) > 0 },
		"put":    func(r gpu.Run) bool { return len(r.Launches) == 0 && len(r.Put) > 0 },
		"back":   func(r gpu.Run) bool { return len(r.Launches) == 0 && len(r.Back) > 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hanging := newGate()
			g := &fakegpu.GPU{Begin: func(r gpu.Run) { hanging.pass(r) }}
			e := decodingOn(t, dir, g, mixed)
			open(t, e, Key{}, layout.CUDA).Close() // the first batch, before there is memory on the GPU
			first := open(t, e, Key{Batch: 1}, layout.CUDA)
			if first.batch.source != nil {
				t.Fatal("the batch is a copy")
			}
			hanging.shut(func(what any) bool { return at(what.(gpu.Run)) })
			impatient(e)
			var wait sync.WaitGroup
			if name != "back" {
				wait.Go(func() {
					if f, err := e.Open(context.Background(), Key{Batch: 2}, layout.CUDA); err == nil {
						f.Close()
					} else if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
				})
				<-hanging.begun
			}
			for _, k := range []Key{{Batch: 1}, {Batch: 2}, {Batch: 1}, {Batch: 3}} {
				if !bytes.Equal(read(t, e, k, layout.NHWCForm), want[k]) {
					t.Errorf("%s differs", k)
				}
			}
			if name == "back" {
				<-hanging.begun
			}
			if !bytes.Equal(tensorOf(t, g, first), want[Key{Batch: 1}]) {
				t.Error("what was open has changed")
			}
			first.Close()
			left(t, e, hanging)
			wait.Wait()
		})
	}
}

// TestAnyCallToTheGPUHangs: if a call hangs for good, host forms and Close still work, and an Open
// on the GPU can be interrupted. When the call returns, its memory is freed, even if the answer is
// that the GPU is lost.
func TestAnyCallToTheGPUHangs(t *testing.T) {
	dir := mixedDir(t, 20, 4)
	want := tensors(t, start(t, dir, mixed))
	for call, times := range map[string]int{"Free": 1, "Alloc": 1, "Register": 2, "Unregister": 1, "Run": 2} {
		for skip := range times {
			for _, answer := range []error{nil, gpu.ErrLost} {
				t.Run(fmt.Sprint(call, " ", skip, " ", answer), func(t *testing.T) {
					t.Parallel()
					hangAt(t, dir, want, call, skip, answer)
				})
			}
		}
	}
}

// hangAt has all calls of a kind hang, except the first few. The answer comes in the end.
func hangAt(t *testing.T, dir string, want map[Key][]byte, call string, skip int, answer error) {
	hanging := newGate()
	g := &fakegpu.GPU{Fail: func(c string) error {
		if hanging.pass(c) {
			return answer
		}
		return nil
	}}
	e := decodingOn(t, dir, g, mixed)
	impatient(e)
	calls := 0
	hanging.shut(func(what any) bool {
		if what == call {
			calls++
		}
		return what == call && calls > skip
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() {
		for ctx.Err() == nil {
			for _, k := range allKeys(e) {
				f, err := e.Open(ctx, k, layout.CUDA)
				if err == nil {
					f.Close()
				} else if !errors.Is(err, context.Canceled) && !errors.Is(err, ErrNoMemory) {
					t.Error(err)
				}
			}
		}
	})
	for hangs, rest := false, 2; rest > 0; {
		for k, pixels := range want {
			if !bytes.Equal(read(t, e, k, layout.NHWCForm), pixels) {
				t.Errorf("%s differs", k)
			}
		}
		e.SetMemoryLimit(1) // all unused memory goes, with its registrations
		e.memory.pool.Trim()
		e.SetMemoryLimit(e.opts.MemoryLimit)
		select {
		case <-hanging.begun:
			hangs = true
		default:
		}
		if hangs {
			rest--
		}
	}
	cancel()
	wait.Wait()
	read(t, e, Key{}, layout.PNG)
	left(t, e, hanging)
}

// TestGPUAnswersDuringARead: the GPU gets everything, and gets it again when a call that hung
// returns, even if the only processor, which stood in for it, is just reading a sample.
func TestGPUAnswersDuringARead(t *testing.T) {
	if !fakegpu.Kernels {
		t.Skip("SKIPPED: the GPU's kernels need cgo here")
	}
	ds := openDataset(t, jpegDir(t, 16))
	synctest.Test(t, func(t *testing.T) {
		answer, second, reading := make(chan struct{}), atomic.Bool{}, make(chan struct{})
		o := testOptions()
		o.Anonymous, o.PrefetchDepth, o.Workers, o.BatchSize, o.DecodeOnDevice = true, 0, 1, 8, true
		o.Device = gpu.New(&fakegpu.GPU{Memory: 1 << 30, Begin: func(gpu.Run) { <-answer }}, gpu.Options{})
		e, err := build(ds, o)
		testkit.Must(t, err)
		defer e.Close()
		e.flow.ownReads = ownReads{remote: true} // reads take no time, for good
		e.wrapLoaders(func(l loader) loader {
			return faultyLoader{l, func(int64) error {
				if second.Load() {
					<-reading
				}
				return nil
			}}
		})
		e.start()
		e.device.share.all()
		read(t, e, Key{}, layout.NHWCForm)
		second.Store(true)
		opened := make(chan error)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			f, err := e.Open(ctx, Key{Batch: 1}, layout.NHWCForm)
			if err == nil {
				f.Close()
			}
			opened <- err
		}()
		synctest.Wait()
		close(answer)
		synctest.Wait()
		close(reading)
		if err := <-opened; err != nil {
			t.Error(err)
		}
	})
}

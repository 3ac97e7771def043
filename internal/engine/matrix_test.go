package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fakegpu"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// A trial is one unit of work, of batch 0 of shard 0, in which a fault happens.
type trial struct {
	e      *Engine
	ctx    context.Context
	cancel func()

	mu    sync.Mutex
	fault func() error // the fault; nil: none any more
	begun chan struct{}
	goOn  chan struct{}
}

// in is called in the unit. The first time, it waits for the test, and then the fault happens.
func (m *trial) in() error {
	m.mu.Lock()
	fault := m.fault
	m.fault = nil
	m.mu.Unlock()
	if fault == nil {
		return nil
	}
	close(m.begun)
	<-m.goOn
	return fault()
}

// trialLoader calls in for samples of batch 0 of shard 0: before they are read, or before they are
// drawn.
type trialLoader struct {
	loader
	m       *trial
	mine    map[int64]bool
	drawing bool
}

func (l trialLoader) Load(ctx context.Context, epoch int, id int64, whole bool, grow func(n int) []byte) ([]byte, int64, dataset.Identity, error) {
	if l.mine[id] && epoch == 0 && !l.drawing {
		if err := l.m.in(); err != nil {
			return nil, 0, unknownIdentity, err
		}
	}
	return l.loader.Load(ctx, epoch, id, whole, grow)
}

func (l trialLoader) Judge(id int64, data []byte) (decode.Header, int, int, error) {
	if l.mine[id] && l.drawing {
		if err := l.m.in(); err != nil {
			return decode.Header{}, 0, 0, err
		}
	}
	return l.loader.Judge(id, data)
}

// TestFaultMatrix: a fault in a unit of work ends at most the open that waits for it, and only if
// the table says so. Meanwhile another shard is served; afterwards the same batch is, and in the
// end nothing is charged.
func TestFaultMatrix(t *testing.T) {
	dir := jpegDir(t, 16)
	shards := func(o *Options) { o.Shards, o.PrefetchDepth, o.Epochs = 2, 0, 1 }
	reference := start(t, dir, shards)
	fails := func(err error) func(*trial) error { return func(*trial) error { return err } }
	nothing := fails(nil)
	const lowersLimit = "the limit is lowered"
	panics := func(*trial) error { panic("a bug") }
	unpinned := func(m *trial) error {
		m.e.locked(func() bool { m.e.table[Key{}].pixels = nil; return true })
		return nil
	}
	misplaced := func(m *trial) error { // its samples are fine, but it cannot be assembled
		m.e.locked(func() bool { m.e.table[Key{}].valid = -1; return true })
		return nil
	}
	for _, c := range []struct {
		unit, what string
		happens    func(*trial) error
		want       error // error of the open; nil: it is served
	}{
		{"load", "hangs", nothing, nil},
		{"load", "EIO", fails(unix.EIO), ErrMachine},
		{"load", "ENOMEM", fails(unix.ENOMEM), ErrNoMemory},
		{"load", "corrupt", fails(decode.ErrCorrupt), ErrBad},
		{"load", "cancelled", nothing, context.Canceled},
		{"load", lowersLimit, nothing, nil},
		{"load", "panics", panics, ErrMachine},
		{"drawing", "ENOMEM", fails(decode.ErrMemory), ErrNoMemory},
		{"drawing", "cancelled", nothing, context.Canceled},
		{"drawing", lowersLimit, nothing, nil},
		{"drawing", "panics", unpinned, ErrMachine},
		{"batch", "panics", misplaced, ErrMachine},
		{"portion", "hangs", nothing, nil},
		{"portion", "EIO", fails(errors.New("the driver failed")), nil},
		{"portion", "ENOMEM", fails(gpu.ErrMemory), nil},
		{"portion", lowersLimit, nothing, nil},
		{"portion", "panics", panics, nil},
		{"portion", "GPU lost", fails(gpu.ErrLost), nil},
	} {
		t.Run(c.unit+" "+c.what, func(t *testing.T) {
			m := &trial{begun: make(chan struct{}), goOn: make(chan struct{})}
			m.fault = func() error { return c.happens(m) }
			m.ctx, m.cancel = context.WithCancel(t.Context())
			defer m.cancel()
			var log bytes.Buffer
			m.e = startTrial(t, dir, m, c.unit, func(o *Options) {
				shards(o)
				o.Logger = slog.New(slog.NewTextHandler(lockedWriter{new(sync.Mutex), &log}, nil))
			})
			opened := make(chan error, 1)
			go func() {
				f, err := m.e.Open(m.ctx, Key{}, layout.NHWCForm)
				if err == nil {
					f.Close()
				}
				opened <- err
			}()
			select {
			case <-m.begun:
			case <-time.After(patience):
				t.Fatal("the unit is never begun")
			}
			served(t, m.e, reference, Key{Shard: 1})
			if c.what == lowersLimit {
				m.e.SetMemoryLimit(1)
			}
			if c.want == context.Canceled {
				m.cancel()
			} else {
				close(m.goOn)
			}
			if err := <-opened; !errors.Is(err, c.want) {
				t.Errorf("the open says %v, want %v", err, c.want)
			}
			if c.want == context.Canceled {
				close(m.goOn)
			}
			m.e.SetMemoryLimit(m.e.opts.MemoryLimit)
			if c.want != ErrBad { // a file that was found bad stays bad until it changes
				served(t, m.e, reference, Key{})
			}
			served(t, m.e, reference, Key{Shard: 1, Batch: 1})
			if err := m.e.Close(); err != nil {
				t.Error(err)
			}
			if c.what == "panics" && c.want != nil && !(strings.Contains(log.String(), ErrPanic.Error()+": ") && strings.Contains(log.String(), "goroutine ")) {
				t.Errorf("the log does not show the panic and its stack: %s", &log)
			}
			for _, u := range []use{useBatches, useScratch} {
				if n, _ := m.e.memory.ledger.usage(u); n != 0 {
					t.Errorf("%d bytes are charged for use %d in the end", n, u)
				}
			}
		})
	}
}

// TestFaultsOfCopies: a fault in a copy ends only the opens of that form, and the next open makes
// the copy again.
func TestFaultsOfCopies(t *testing.T) {
	dir := jpegDir(t, 8)
	reference := start(t, dir)
	for _, form := range []layout.Form{layout.PNG, layout.NPY} {
		e := start(t, dir, func(o *Options) { o.PrefetchDepth = 0 })
		source := open(t, e, Key{}, layout.NHWCForm)
		pixels := source.batch.pixels
		set := func(p []byte) { e.locked(func() bool { source.batch.pixels = p; return true }) }
		set(nil)
		fails(t, e, Key{}, form, ErrMachine)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := e.Open(ended, Key{}, form); !errors.Is(err, context.Canceled) && !errors.Is(err, ErrMachine) {
			t.Errorf("%s, interrupted: %v", form.Ext(), err)
		}
		testkit.Must(t, e.Quiet(t.Context()))
		set(pixels)
		if !bytes.Equal(source.Bytes(), read(t, reference, Key{}, layout.NHWCForm)) {
			t.Errorf("the source of a .%s has other bytes", form.Ext())
		}
		e.SetMemoryLimit(1)
		waits, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := e.Open(waits, Key{}, form)
		stop()
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrNoMemory) {
			t.Errorf("%s, under a limit that leaves no room: %v", form.Ext(), err)
		}
		e.SetMemoryLimit(e.opts.MemoryLimit)
		if !bytes.Equal(read(t, e, Key{}, form), read(t, reference, Key{}, form)) {
			t.Errorf("%s has other bytes", form.Ext())
		}
		source.Close()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if n := e.batchBytes(); n != 0 {
			t.Errorf("%d bytes are charged for batches in the end", n)
		}
	}
}

// startTrial starts an engine that calls m.in in units of a kind.
func startTrial(t *testing.T, dir string, m *trial, unit string, change func(*Options)) *Engine {
	t.Helper()
	if unit == "portion" {
		var hit func(call string) error
		g := &fakegpu.GPU{Fail: func(call string) error {
			if call == "Run" {
				return hit(call)
			}
			return nil
		}}
		hit = func(string) error {
			if m.e != nil && m.e.locked(func() bool { return m.e.table[Key{}] != nil }) {
				return m.in()
			}
			return nil
		}
		e := decodingOn(t, dir, g, change)
		e.locked(func() bool { e.device.wait = 300 * time.Millisecond; return true })
		return e
	}
	e := built(t, dir, change)
	mine := map[int64]bool{}
	slots, _ := e.catalog.Slots(Key{})
	for _, s := range slots {
		mine[s.ID] = true
	}
	e.wrapLoaders(func(l loader) loader { return trialLoader{l, m, mine, unit == "drawing"} })
	m.e = e
	e.start()
	return e
}

func served(t *testing.T, e, reference *Engine, k Key) {
	t.Helper()
	if !bytes.Equal(read(t, e, k, layout.NHWCForm), read(t, reference, k, layout.NHWCForm)) {
		t.Errorf("%s has other bytes", k)
	}
}

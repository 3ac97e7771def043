package gpu

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/batchfs/batchfs/internal/cuda"
)

// narrowed is the number of the first GPU that the driver sees, among all that this process was
// given.
var narrowed struct {
	once  sync.Once
	first int
}

// Find returns the driver of a GPU: for "auto", of the first GPU (preferably a whole one);
// otherwise, of the GPU with a number or UUID. It does not use the GPU yet. The error says why
// there is none. If possible, the first call hides all other GPUs from the process from then on.
func Find(which string) (Driver, error) {
	narrowed.once.Do(func() { narrowed.first = narrow(which) })
	nvidia, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	devices, err := nvidia.Devices()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range devices {
		number := narrowed.first + d.Ordinal
		if which == "auto" && !d.MIG || which == strconv.Itoa(number) || which == d.UUID {
			return newDriver(d), nil
		}
		names = append(names, fmt.Sprintf("%d: %s (%s)", number, d.UUID, d.Name))
	}
	if which == "auto" && len(devices) > 0 {
		return newDriver(devices[0]), nil
	}
	return nil, fmt.Errorf("there is no GPU %s, only %s", which, strings.Join(names, ", "))
}

func newDriver(d cuda.Device) Driver {
	made := &driver{
		device: d, memory: thread{device: d}, copying: runner{thread: thread{device: d}},
		running: make(chan *runner, runners),
	}
	for range runners {
		made.running <- &runner{thread: thread{device: d}, kernels: &made.kernels}
	}
	return made
}

// A driver is NVIDIA's. It has several threads, so that only the callers of a copy, or of kernels,
// wait for it.
type driver struct {
	device  cuda.Device
	memory  thread
	kernels kernels
	copying runner       // for Runs without kernels
	running chan *runner // unused threads for Runs with kernels
}

func (d *driver) UUID() string { return d.device.UUID }

func (d *driver) CannotShare() error {
	if d.device.MIG {
		return fmt.Errorf("%s is a part of a GPU (MIG), whose memory other processes cannot map", d.device.UUID)
	}
	return nil
}

func (d *driver) Free() (free int64, err error) {
	err = d.memory.do(func(t *cuda.Thread, _ *cuda.Stream) (err error) {
		free, _, err = t.MemoryInfo()
		return err
	})
	return free, err
}

func (d *driver) Alloc(n int64, shared bool) (m Memory, err error) {
	err = d.memory.do(func(t *cuda.Thread, _ *cuda.Stream) error {
		p, err := t.Alloc(n)
		if err != nil {
			return err
		}
		if m.Address = uint64(p); !shared {
			return nil
		}
		if m.Handle, err = t.Export(p); err != nil {
			return errors.Join(err, t.Free(p))
		}
		return nil
	})
	return m, err
}

func (d *driver) Release(m Memory) error {
	return d.memory.do(func(t *cuda.Thread, _ *cuda.Stream) error { return t.Free(cuda.Pointer(m.Address)) })
}

func (d *driver) Register(m []byte) error {
	return d.memory.do(func(t *cuda.Thread, _ *cuda.Stream) error { return t.Register(m) })
}

func (d *driver) Unregister(m []byte) error {
	return d.memory.do(func(t *cuda.Thread, _ *cuda.Stream) error { return t.Unregister(m) })
}

func (d *driver) Close() (err error) {
	for range runners {
		err = errors.Join(err, (<-d.running).close())
	}
	return errors.Join(err, d.copying.close(), d.kernels.unload(&d.memory), d.memory.close())
}

// A thread makes one call after another, with the GPU's context and a stream. It starts with the
// first call.
type thread struct {
	device cuda.Device

	mu      sync.Mutex // held by the caller of the running call
	calls   chan func(*cuda.Thread, *cuda.Stream) error
	results chan error // one per call; the first says that the thread runs, the last that it ended
}

func (t *thread) do(call func(*cuda.Thread, *cuda.Stream) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls == nil {
		if err := t.start(); err != nil {
			return err
		}
	}
	t.calls <- call
	return <-t.results
}

func (t *thread) start() error {
	calls, results := make(chan func(*cuda.Thread, *cuda.Stream) error), make(chan error)
	go func() {
		results <- t.device.Thread(func(ct *cuda.Thread) error {
			s, err := ct.NewStream()
			if err != nil {
				return err
			}
			results <- nil
			for call := range calls {
				results <- call(ct, s)
			}
			return s.Close()
		})
	}()
	if err := <-results; err != nil {
		return err
	}
	t.calls, t.results = calls, results
	return nil
}

func (t *thread) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls == nil {
		return nil
	}
	close(t.calls)
	t.calls = nil
	return <-t.results
}

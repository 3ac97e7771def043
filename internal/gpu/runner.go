package gpu

import (
	"errors"
	"fmt"
	"sync"

	"github.com/batchfs/batchfs/internal/cuda"
)

// runners is how many Runs can execute at once: while one waits for its kernels, another one
// copies.
const runners = 2

// A runner is a thread that executes Runs.
type runner struct {
	thread
	kernels *kernels
	jpegs   *cuda.JPEGDecoder // nil: nvJPEG is not used
}

func (d *driver) Run(r Run) error {
	k := &d.copying
	if len(r.Launches) > 0 {
		k = <-d.running
		defer func() { d.running <- k }()
	}
	return k.do(func(t *cuda.Thread, s *cuda.Stream) error {
		if len(r.Launches) > 0 {
			if err := k.kernels.load(t); err != nil {
				return err
			}
		}
		return errors.Join(k.start(r, s), settle(s))
	})
}

// OpenNVJPEG makes a decoder for each of the threads.
func (d *driver) OpenNVJPEG(gray bool) (name string, err error) {
	version, err := cuda.NVJPEGVersion()
	if err != nil {
		return "", err
	}
	for range runners { // they take turns
		k := <-d.running
		if k.jpegs == nil {
			err = errors.Join(err, k.do(func(t *cuda.Thread, _ *cuda.Stream) (err error) {
				k.jpegs, err = t.NewJPEGDecoder(gray)
				return err
			}))
		}
		if err == nil && name != "" && name != k.jpegs.Backend {
			err = fmt.Errorf("nvJPEG offers the backends %s and %s by turns", name, k.jpegs.Backend)
		}
		if err == nil {
			name = k.jpegs.Backend
		}
		d.running <- k
	}
	return fmt.Sprintf("nvJPEG %s, %s, on %s", version, name, d.device.Name), err
}

// kernels are the code on the GPU. All threads share it, in the GPU's context.
type kernels struct {
	mu        sync.Mutex
	module    *cuda.Module             // nil: not loaded yet
	functions map[string]cuda.Function // complete once the module is loaded
}

// load compiles the kernels, unless they are loaded.
func (k *kernels) load(t *cuda.Thread) (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.module == nil {
		module, err := t.Load(PTX)
		if err != nil {
			return err
		}
		k.module = module
	}
	if k.functions != nil {
		return nil
	}
	functions := map[string]cuda.Function{}
	for _, name := range []string{entropyKernel, transformKernel, convertKernel, placeKernel} {
		if functions[name], err = k.module.Function(name); err != nil {
			return err
		}
	}
	k.functions = functions
	return nil
}

// unload undoes load. Nothing may be running.
func (k *kernels) unload(on *thread) error {
	if k.module == nil {
		return nil
	}
	return on.do(func(*cuda.Thread, *cuda.Stream) error { return k.module.Close() })
}

// start gives a stream all work of a Run. Its kernels must be loaded.
func (k *runner) start(r Run, s *cuda.Stream) error {
	for _, p := range r.Put {
		if len(p.From) == 0 {
			continue
		}
		if err := s.ToDevice(cuda.Pointer(p.To), p.From); err != nil {
			return err
		}
	}
	if len(r.Images) > 0 {
		if err := k.jpegs.Decode(s, r.Images); err != nil {
			return err
		}
	}
	for _, l := range r.Launches {
		if err := k.kernels.functions[l.Kernel].Launch(l.Grid, [3]int{l.Threads, 1, 1}, l.Shared, s, cuda.Pointer(r.At)); err != nil {
			return err
		}
	}
	for _, w := range r.Within {
		if err := s.Copy(cuda.Pointer(w.To), cuda.Pointer(w.From), w.Bytes); err != nil {
			return err
		}
	}
	for _, b := range r.Back {
		if len(b.To) == 0 {
			continue
		}
		if err := s.ToHost(b.To, cuda.Pointer(b.From)); err != nil {
			return err
		}
	}
	return nil
}

// settle waits for a stream, even after an error: work that was started uses memory until it is
// done. If waiting fails, the stream may use it forever, so the GPU counts as lost.
func settle(s *cuda.Stream) error {
	err := s.Synchronize()
	if err != nil && s.Synchronize() != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// close frees nvJPEG's decoder, and ends the thread.
func (k *runner) close() (err error) {
	if k.jpegs != nil {
		err = k.do(func(*cuda.Thread, *cuda.Stream) error { return k.jpegs.Close() })
		k.jpegs = nil
	}
	return errors.Join(err, k.thread.close())
}

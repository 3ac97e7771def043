package gpucheck

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/batchfs/batchfs/internal/cuda"
	"github.com/batchfs/batchfs/internal/gpu"
)

// usualGPU finds the GPU that mounts use by default.
func usualGPU() (device cuda.Device, err error) {
	found, err := gpu.Find("auto")
	if err != nil {
		return device, err
	}
	defer found.Close()
	driver, err := cuda.Open()
	if err != nil {
		return device, err
	}
	devices, err := driver.Devices()
	for _, d := range devices {
		if d.UUID == found.UUID() {
			device = d
		}
	}
	return device, err
}

// A cudaReader opens .cuda files on one thread of the GPU, like a program that trains there. It
// maps each allocation once.
type cudaReader struct {
	thread *cuda.Thread
	slabs  map[string]*cuda.Import // by their handles
}

// onGPU runs f with a cudaReader.
func onGPU(device cuda.Device, f func(t *cuda.Thread, r *cudaReader) error) error {
	return device.Thread(func(t *cuda.Thread) (err error) {
		r := &cudaReader{t, map[string]*cuda.Import{}}
		defer func() {
			for _, slab := range r.slabs {
				err = errors.Join(err, slab.Close())
			}
		}()
		return f(t, r)
	})
}

// A cudaBatch is in the GPU's memory, and stays there until its file is closed.
type cudaBatch struct {
	*os.File
	At    cuda.Pointer
	Bytes int64
}

// open opens a file. It returns when the batch is there.
func (r *cudaReader) open(path string) (b cudaBatch, err error) {
	if b.File, err = os.Open(path); err != nil {
		return b, err
	}
	var text [4096]byte
	var document struct {
		Handle        string
		Offset, Bytes int64
	}
	if _, err = b.ReadAt(text[:], 0); err == nil {
		err = json.Unmarshal(text[:], &document)
	}
	if err == nil {
		err = r.find(document.Handle)
	}
	if err != nil {
		return b, errors.Join(fmt.Errorf("%s: %w", path, err), b.Close())
	}
	b.At, b.Bytes = r.slabs[document.Handle].At+cuda.Pointer(document.Offset), document.Bytes
	return b, nil
}

// find maps an allocation, unless it is mapped already.
func (r *cudaReader) find(name string) error {
	if _, mapped := r.slabs[name]; mapped {
		return nil
	}
	var handle cuda.IPCHandle
	if _, err := hex.Decode(handle[:], []byte(name)); err != nil {
		return err
	}
	slab, err := r.thread.OpenIPC(handle)
	if err == nil {
		r.slabs[name] = slab
	}
	return err
}

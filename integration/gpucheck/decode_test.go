package gpucheck

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/cuda"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// hostMemory is memory for one piece of work after another, registered with a GPU.
type hostMemory struct {
	device *gpu.Device
	bytes  []byte
}

// grow makes it at least n bytes large.
func (m *hostMemory) grow(n int) (err error) {
	if n <= len(m.bytes) {
		return nil
	}
	m.free()
	if m.bytes, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		return err
	}
	return m.device.Register(m.bytes)
}

func (m *hostMemory) free() {
	if m.bytes != nil {
		m.device.Unregister(m.bytes)
		_ = unix.Munmap(m.bytes)
		m.bytes = nil
	}
}

// A jpeg is a file in memory that is registered with the GPU.
type jpeg struct {
	data []byte
	head decode.Header
}

const decoded = "JPEGs decoded in full: "

// With more JPEGs a call than this, every version of nvJPEG reads the Huffman codes with kernels.
// Mounts give it 50.
const manyJPEGs = 128

// TestDecoding decodes the same photos in full, in several ways. The libraries that nvJPEG needs
// may be missing.
func TestDecoding(t *testing.T) {
	device := theGPU(t)
	folder, files := drawn(t, "photo", *photos)
	driver, err := gpu.Find(device.UUID)
	testkit.Must(t, err)
	on := gpu.New(driver, gpu.Options{})
	defer on.Close()
	memory := &hostMemory{device: on}
	defer memory.free()
	jpegs := registered(t, memory, files)

	portions := []int{16, 64, 256} // how many JPEGs our kernels decode at once
	sides := []side{{fmt.Sprintf("%slibjpeg-turbo, %d CPUs", decoded, runtime.NumCPU()), byLibJPEG(t, jpegs)}}
	for _, n := range portions {
		sides = append(sides, side{fmt.Sprintf("%sbatchfs, exact kernels, %d at once", decoded, n), exactKernels(t, on, n, jpegs)})
	}
	for _, l := range []struct {
		backend string
		calls   int
	}{{"hardware", manyJPEGs}, {"GPU-hybrid", 50}, {"GPU-hybrid", manyJPEGs}} {
		name := fmt.Sprintf("%snvJPEG, %s, %d a call", decoded, l.backend, l.calls)
		turn, err := nvjpeg(t, device, l.backend, l.calls, jpegs)
		if err == nil {
			_, err = turn() // whether it decodes these files
		}
		if err != nil {
			t.Logf("%s skipped: %v", name, err)
			continue
		}
		sides = append(sides, side{name, turn})
	}
	speeds := measure(t, "images/s", sides...)
	ours, theirs := best(speeds[1:1+len(portions)]), speeds[1+len(portions):]
	ratio(t, "exact kernels / libjpeg-turbo", ours, speeds[0], 0)
	const name = decoded + "nvJPEG, by torchvision"
	if a, err := ask(t, torchvision, folder, strconv.Itoa(manyJPEGs), strconv.Itoa(*rounds)); err != nil {
		t.Logf("%s skipped: %v", name, err)
	} else {
		report(t, name+" ("+a.What+")", "images/s", a.Speeds, 0)
		theirs = append(theirs, a.Speeds)
	}
	if len(theirs) == 0 {
		t.Log("exact kernels / nvJPEG's best skipped: there is no figure of nvJPEG's")
		return
	}
	ratio(t, "exact kernels / nvJPEG's best", ours, best(theirs), 1)
}

// best returns the highest of some speeds in each round.
func best(speeds [][]float64) []float64 {
	most := slices.Clone(speeds[0])
	for _, some := range speeds[1:] {
		for i := range most {
			most[i] = max(most[i], some[i])
		}
	}
	return most
}

// registered reads files into registered memory.
func registered(t *testing.T, memory *hostMemory, files []string) (jpegs []jpeg) {
	t.Helper()
	size := 0
	for _, path := range files {
		data, err := os.ReadFile(path)
		testkit.Must(t, err)
		head, err := decode.ReadHeader(data, true)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		jpegs, size = append(jpegs, jpeg{data, head}), size+len(data)
	}
	testkit.Must(t, memory.grow(size))
	rest := memory.bytes
	for i := range jpegs {
		n := copy(rest, jpegs[i].data)
		jpegs[i].data, rest = rest[:n:n], rest[n:]
	}
	return jpegs
}

// inBatches is a turn in which each of the workers decodes one batch after another. It measures
// images a second.
func inBatches[W any](t *testing.T, jpegs []jpeg, batch int, workers []W, decode func(w W, jpegs []jpeg) error) func() (float64, error) {
	batches := slices.Collect(slices.Chunk(jpegs, batch))
	idle := make(chan W, len(workers))
	for _, w := range workers {
		idle <- w
	}
	return func() (float64, error) {
		return perSecond(float64(len(jpegs)), func() error {
			return parallel.Each(t.Context(), len(workers), len(batches), nil, func(_ context.Context, items iter.Seq[int]) error {
				w := <-idle
				defer func() { idle <- w }()
				for i := range items {
					if err := decode(w, batches[i]); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// byLibJPEG decodes on all processors, one file after another into the same buffer.
func byLibJPEG(t *testing.T, jpegs []jpeg) func() (float64, error) {
	most := 0
	for _, j := range jpegs {
		most = max(most, j.head.Height*j.head.Width*3)
	}
	type processor struct {
		*decode.Decoder
		pix []byte
	}
	processors := make([]processor, runtime.NumCPU())
	for i := range processors {
		processors[i] = processor{decode.NewDecoder(decode.Options{Kernel: decode.LibJPEG}), make([]byte, most)}
		t.Cleanup(func() { processors[i].Close() })
	}
	return inBatches(t, jpegs, 1, processors, func(p processor, one []jpeg) error {
		h, w := one[0].head.Size(false)
		return p.Decode(decode.Image{Pix: p.pix, Stride: w * 3, Height: h, Width: w}, one[0].data, one[0].head)
	})
}

// exactKernels decodes on the GPU, where the pixels stay: several portions are packed while others
// are decoded.
func exactKernels(t *testing.T, device *gpu.Device, portion int, jpegs []jpeg) func() (float64, error) {
	packers := make([]*hostMemory, min(8, runtime.NumCPU()))
	for i := range packers {
		packers[i] = &hostMemory{device: device}
		t.Cleanup(packers[i].free)
	}
	return inBatches(t, jpegs, portion, packers, func(p *hostMemory, jpegs []jpeg) error {
		left, err := p.decode(jpegs)
		if err == nil && left > 0 {
			err = fmt.Errorf("the kernels left %d of %d JPEGs to processors, so their speed means nothing", left, len(jpegs))
		}
		return err
	})
}

// decode decodes one batch in full, and returns how many files the kernels left.
func (m *hostMemory) decode(jpegs []jpeg) (left int, err error) {
	var samples []gpu.Sample
	h, w := 1, 1
	for i, j := range jpegs {
		tall, wide := j.head.Size(false)
		h, w = max(h, tall), max(w, wide)
		whole := resample.Options{Mode: resample.None}.Choose(0, int64(i), tall, wide)
		job := pixels.Options{}.Plan(j.head, whole, pixels.Target{})
		samples = append(samples, gpu.Sample{Slot: i, Job: job, Data: j.data})
	}
	tensor, err := tensorOf(len(jpegs), h, w, layout.Uint8, layout.NHWC)
	if err != nil {
		return 0, err
	}
	if tensor.In, err = m.device.Slot(tensor.Spec.Bytes()); err != nil {
		return 0, err
	}
	defer tensor.In.Release()
	plan, err := gpu.NewPlan(tensor, samples)
	if err == nil {
		err = m.grow(plan.Host())
	}
	if err != nil {
		return 0, err
	}
	for i := range jpegs {
		plan.Put(m.bytes, i)
	}
	_, skipped, err := m.device.Make(plan, m.bytes)
	return len(skipped), err
}

// A library is a decoder of nvJPEG with its memory.
type library struct {
	decoder *cuda.JPEGDecoder
	stream  *cuda.Stream
	memory  cuda.Pointer
}

// nvjpeg decodes with one backend of NVIDIA's library, to RGB in the GPU's memory.
func nvjpeg(t *testing.T, device cuda.Device, backend string, calls int, jpegs []jpeg) (turn func() (float64, error), err error) {
	var size int64
	for chunk := range slices.Chunk(jpegs, calls) {
		_, n := nvjpegImages(chunk, 0)
		size = max(size, n)
	}
	later := func(end func(ct *cuda.Thread) error) {
		t.Cleanup(func() { _ = device.Thread(end) })
	}
	libraries := make([]library, 4) // while one reads headers, others decode
	err = device.Thread(func(ct *cuda.Thread) (err error) {
		for i := range libraries {
			l := &libraries[i]
			if l.decoder, err = ct.NewJPEGDecoder(false, backend); err != nil {
				return err
			}
			l.decoder.Most = calls
			later(func(*cuda.Thread) error { return l.decoder.Close() })
			if l.stream, err = ct.NewStream(); err != nil {
				return err
			}
			later(func(*cuda.Thread) error { return l.stream.Close() })
			if l.memory, err = ct.Alloc(size); err != nil {
				return err
			}
			later(func(ct *cuda.Thread) error { return ct.Free(l.memory) })
		}
		return nil
	})
	return inBatches(t, jpegs, calls, libraries, func(l library, jpegs []jpeg) error {
		return device.Thread(func(*cuda.Thread) error { return l.decode(jpegs) })
	}), err
}

func (l library) decode(jpegs []jpeg) error {
	images, _ := nvjpegImages(jpegs, l.memory)
	err := errors.Join(l.decoder.Decode(l.stream, images), l.stream.Synchronize())
	if err == nil && slices.ContainsFunc(images, func(j cuda.JPEG) bool { return j.Refused }) {
		err = fmt.Errorf("nvJPEG (%s) does not decode all of the files, so its speed means nothing", l.decoder.Backend)
	}
	return err
}

// nvjpegImages are files, each with its place in memory, and the bytes that all take.
func nvjpegImages(batch []jpeg, memory cuda.Pointer) (images []cuda.JPEG, bytes int64) {
	for _, j := range batch {
		to := memory + cuda.Pointer(bytes)
		images = append(images, cuda.JPEG{Data: j.data, To: to, Pitch: j.head.Width * 3, Rows: j.head.Height})
		bytes += int64(j.head.Height*j.head.Width*3+255) &^ 255
	}
	return images, bytes
}

//go:embed jpegs.py
var torchvision string

// TestTorchvision: the script decodes all files of a folder in each round.
func TestTorchvision(t *testing.T) {
	if _, err := exec.LookPath(*python); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	modules, folder := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		folder + "/a/1": "JPEG", folder + "/a/2": "JPEG", folder + "/b/1": "JPEG",
		modules + "/torchvision/__init__.py": "__version__ = '1'",
		modules + "/torch.py": `
import types
uint8, cuda = int, types.SimpleNamespace(is_available=lambda: True, synchronize=lambda: None)
def frombuffer(data, dtype):
    return bytes(data)
`,
		modules + "/torchvision/io.py": `
import types
ImageReadMode = types.SimpleNamespace(RGB=3)
def decode_jpeg(files, mode, device):
    assert set(files) == {b"JPEG"} and (mode, device) == (3, "cuda")
`,
	} {
		testkit.Must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	}
	t.Setenv("PYTHONPATH", modules)
	if a, err := ask(t, torchvision, folder, "2", "3"); err != nil || len(a.Speeds) != 3 || slices.Min(a.Speeds) <= 0 {
		t.Errorf("%+v, %v", a, err)
	}
}

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/cuda"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/layout"
)

// gpuDecoders decodes the same files in full, in several ways. They are in memory that is
// registered with the GPU.
func gpuDecoders(_ context.Context, b *bench) ([]contest, error) {
	images, err := load(b.photos.some(4000))
	if err != nil {
		return nil, err
	}
	driver, err := gpu.Find(b.gpu.UUID)
	if err != nil {
		return nil, err
	}
	device := gpu.New(driver, gpu.Options{})
	b.later(device.Close)
	size := 0
	for _, image := range images {
		size += len(image.data)
	}
	files := &registered{device: device}
	b.later(files.close)
	if err := files.grow(size); err != nil {
		return nil, err
	}
	rest := files.host
	for i, image := range images {
		n := copy(rest, image.data)
		images[i].data, rest = rest[:n:n], rest[n:]
	}
	names, sides := []string{fmt.Sprintf("libjpeg-turbo, %d CPUs", runtime.NumCPU())}, []contender{byLibJPEG(b, images)}
	for _, n := range portions {
		names = append(names, fmt.Sprintf("batchfs, exact kernels, %d at once", n))
		sides = append(sides, exactKernels(b, device, n, images))
	}
	for _, l := range []nvjpegCalls{{"hardware", manyJPEGs}, {"GPU-hybrid", 50}, {"GPU-hybrid", manyJPEGs}} {
		names = append(names, fmt.Sprintf("nvJPEG, %s, %d a call", l.backend, l.batch))
		sides = append(sides, nvjpeg(b, l, images))
	}
	names = append(names, "nvJPEG, by torchvision")
	sides = append(sides, torchvision(b, b.photos.Root(), len(images)))
	return []contest{{what: "decoding", contenders: sides, warm: true, rows: func(r results) []row {
		return decodingRows(names, r)
	}}}, nil
}

// Above this many JPEGs a call, all versions of nvJPEG have kernels read the Huffman codes. Mounts
// give it 50.
const manyJPEGs = 128

// nvjpegCalls is a way to use nvJPEG.
type nvjpegCalls struct {
	backend string
	batch   int // JPEGs that one call decodes
}

// portions are how many JPEGs our kernels decode at once.
var portions = []int{16, 64, 256}

// decodingRows are rows of libjpeg-turbo, of our kernels, and of nvJPEG's backends that could be
// measured.
func decodingRows(names []string, r results) (rows []row) {
	nvidia, ours := series{missing: errors.New("there is no figure of nvJPEG's")}, r.of(rate, 1)
	for i, name := range names {
		rows = append(rows, r.row("JPEGs decoded in full: "+name, rate, i))
		switch {
		case i == 0 || r[i].missing != nil:
		case i <= len(portions):
			ours = ours.most(r.of(rate, i))
		case nvidia.missing != nil:
			nvidia = r.of(rate, i)
		default:
			nvidia = nvidia.most(r.of(rate, i))
		}
	}
	return append(rows, ratio("    exact kernels / libjpeg-turbo", rate.unit, ours, r.of(rate, 0)),
		ratio("    exact kernels / nvJPEG's best", rate.unit, ours, nvidia).atLeast(1))
}

// A processor decodes one file after another into the same buffer.
type processor struct {
	*decode.Decoder
	pix []byte
}

// byLibJPEG decodes files on all processors.
func byLibJPEG(b *bench, images []encoded) contender {
	processors := make(chan *processor, runtime.NumCPU())
	for range cap(processors) {
		p := &processor{Decoder: decode.NewDecoder(decode.Options{Kernel: decode.LibJPEG})}
		processors <- p
		b.later(func() error { p.Close(); return nil })
	}
	return ready(inBatches(images, 1, processors, func(p *processor, one []encoded) error {
		return p.Decode(one[0].into(&p.pix), one[0].data, one[0].head)
	}))
}

// exactKernels decodes files on the GPU, where the pixels stay: several portions are packed while
// others are decoded.
func exactKernels(b *bench, device *gpu.Device, portion int, images []encoded) contender {
	return contender{start: func(context.Context) (turn, error) {
		packers := make(chan *registered, min(8, runtime.NumCPU()))
		for range cap(packers) {
			p := &registered{device: device}
			packers <- p
			b.later(p.close)
		}
		return inBatches(images, portion, packers, func(p *registered, images []encoded) error {
			left, err := p.decode(images)
			if err == nil && left > 0 {
				err = fmt.Errorf("the kernels left %d of %d JPEGs to processors, so their speed means nothing", left, len(images))
			}
			return err
		}), nil
	}}
}

// inBatches is a turn in which each of the workers decodes one batch after another.
func inBatches[W any](images []encoded, batch int, workers chan W, decode func(w W, images []encoded) error) turn {
	batches := slices.Collect(slices.Chunk(images, batch))
	return perSecond(rate, int64(len(images)), func(ctx context.Context) error {
		return parallel.Each(ctx, cap(workers), len(batches), nil, func(_ context.Context, items iter.Seq[int]) error {
			w := <-workers
			defer func() { workers <- w }()
			for i := range items {
				if err := decode(w, batches[i]); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// registered is memory for one piece of work after another, registered with the GPU.
type registered struct {
	device *gpu.Device
	host   []byte
}

// decode decodes one batch in full, and returns how many files the kernels left.
func (p *registered) decode(images []encoded) (left int, err error) {
	var samples []gpu.Sample
	h, w := 1, 1
	for i, image := range images {
		tall, wide := image.head.Size(false)
		h, w = max(h, tall), max(w, wide)
		whole := resample.Options{Mode: resample.None}.Choose(0, int64(i), tall, wide)
		job := pixels.Options{}.Plan(image.head, whole, pixels.Target{})
		samples = append(samples, gpu.Sample{Slot: i, Job: job, Data: image.data})
	}
	tensor, err := tensorOf(len(images), h, w, layout.Uint8, layout.NHWC)
	if err != nil {
		return 0, err
	}
	if tensor.In, err = p.device.Slot(tensor.Spec.Bytes()); err != nil {
		return 0, err
	}
	defer tensor.In.Release()
	plan, err := gpu.NewPlan(tensor, samples)
	if err != nil {
		return 0, err
	}
	if err := p.grow(plan.Host()); err != nil {
		return 0, err
	}
	for i := range images {
		plan.Put(p.host, i)
	}
	_, skipped, err := p.device.Make(plan, p.host)
	return len(skipped), err
}

// grow makes the memory at least so large.
func (p *registered) grow(n int) (err error) {
	if n <= len(p.host) {
		return nil
	}
	if err := p.close(); err != nil {
		return err
	}
	if p.host, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		return err
	}
	return p.device.Register(p.host)
}

func (p *registered) close() error {
	if p.host == nil {
		return nil
	}
	old := p.host
	p.host = nil
	p.device.Unregister(old)
	return unix.Munmap(old)
}

// A library is a decoder of nvJPEG with its memory.
type library struct {
	decoder *cuda.JPEGDecoder
	stream  *cuda.Stream
	memory  cuda.Pointer
}

// nvjpeg decodes with one backend of NVIDIA's library, to RGB in the GPU's memory. It may be
// missing here.
func nvjpeg(b *bench, calls nvjpegCalls, images []encoded) contender {
	const threads = 4 // while one reads headers, others decode
	return contender{optional: true, start: func(ctx context.Context) (turn, error) {
		var size int64
		for chunk := range slices.Chunk(images, calls.batch) {
			_, n := nvjpegImages(chunk, 0)
			size = max(size, n)
		}
		libraries := make(chan library, threads)
		err := b.gpu.Thread(func(t *cuda.Thread) (err error) {
			for range threads {
				var l library
				if l.decoder, err = t.NewJPEGDecoder(false, calls.backend); err != nil {
					return err
				}
				l.decoder.Most = calls.batch
				b.laterOnGPU(func(*cuda.Thread) error { return l.decoder.Close() })
				if l.stream, err = t.NewStream(); err != nil {
					return err
				}
				b.laterOnGPU(func(*cuda.Thread) error { return l.stream.Close() })
				if l.memory, err = t.Alloc(size); err != nil {
					return err
				}
				b.laterOnGPU(func(t *cuda.Thread) error { return t.Free(l.memory) })
				libraries <- l
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		decoding := inBatches(images, calls.batch, libraries, func(l library, images []encoded) error {
			return b.gpu.Thread(func(*cuda.Thread) error { return l.decode(images) })
		})
		_, err = decoding(ctx) // whether it decodes these files
		return decoding, err
	}}
}

// laterOnGPU has something ended later on a thread of the GPU.
func (b *bench) laterOnGPU(end func(t *cuda.Thread) error) {
	b.later(func() error { return b.gpu.Thread(end) })
}

func (l library) decode(files []encoded) error {
	images, _ := nvjpegImages(files, l.memory)
	err := errors.Join(l.decoder.Decode(l.stream, images), l.stream.Synchronize())
	if err == nil && slices.ContainsFunc(images, func(j cuda.JPEG) bool { return j.Refused }) {
		err = fmt.Errorf("nvJPEG (%s) does not decode all of the files, so its speed means nothing", l.decoder.Backend)
	}
	return err
}

// nvjpegImages are files, each with its place in memory, and the bytes that all take.
func nvjpegImages(batch []encoded, memory cuda.Pointer) (images []cuda.JPEG, bytes int64) {
	for _, e := range batch {
		to := memory + cuda.Pointer(bytes)
		images = append(images, cuda.JPEG{Data: e.data, To: to, Pitch: e.head.Width * 3, Rows: e.head.Height})
		bytes += int64(e.head.Height*e.head.Width*3+255) &^ 255
	}
	return images, bytes
}

//go:embed gpu_torchvision.py
var torchvisionScript []byte

// torchvision decodes n files of a folder with PyTorch's decoder on the GPU. It may be missing
// here, as may Python.
func torchvision(b *bench, folder string, n int) contender {
	return contender{optional: true, start: func(ctx context.Context) (turn, error) {
		script := filepath.Join(b.work, "gpu_torchvision.py")
		if err := os.WriteFile(script, torchvisionScript, 0o600); err != nil {
			return nil, err
		}
		c, err := b.consume(ctx, script, folder, strconv.Itoa(n), strconv.Itoa(manyJPEGs))
		if err != nil {
			return nil, err
		}
		b.later(c.stop)
		return func(context.Context) (figures, error) { return c.turn((n + manyJPEGs - 1) / manyJPEGs) }, nil
	}}
}

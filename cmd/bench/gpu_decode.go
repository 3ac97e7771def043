package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/pixels"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/gpu"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/layout"
)

// decodeBatch is how many JPEGs the GPU gets at once, and packers is how many goroutines prepare them.
const (
	decodeBatch = 64
	packers     = 8
)

// gpuDecoders decodes the same files in full, in several ways. They are in memory that is registered with the GPU.
func gpuDecoders(ctx context.Context, s *setup) (rows []row, err error) {
	loaded, err := contents(s.photos.files[:min(4000, s.photos.images)])
	if err != nil {
		return nil, err
	}
	driver, err := gpu.Find(s.gpu.UUID)
	if err != nil {
		return nil, err
	}
	defer driver.Close()
	memory := area{driver: driver}
	defer func() { err = errors.Join(err, memory.close()) }()
	files, err := memory.hold(loaded)
	if err != nil {
		return nil, err
	}
	kernels := newKernels(driver)
	defer func() { err = errors.Join(err, kernels.close()) }()
	sides := []side{rate(files, func(ctx context.Context) error { return kernels.decode(ctx, files) }),
		rate(files, func(ctx context.Context) error { return byLibJPEG(ctx, files) })}
	names := []string{"batchfs, exact kernels", fmt.Sprintf("libjpeg-turbo, %d CPUs", runtime.NumCPU())}
	for _, backend := range []string{"hardware", "GPU-hybrid"} {
		name := "nvJPEG, " + backend
		library, err := openNVJPEG(s.gpu, backend, files)
		if err != nil {
			rows = append(rows, row{what: decodedInFull + name, skipped: err.Error()})
			continue
		}
		defer library.close()
		names, sides = append(names, name), append(sides, rate(files, func(context.Context) error { return library.decode(files) }))
	}
	figures, err := s.turns(ctx, "decoding", s.rounds+1, sides...)
	if err != nil {
		return rows, err
	}
	return append(decodingRows(names, figures), rows...), nil
}

const decodedInFull = "JPEGs decoded in full: "

// decodingRows makes rows of the figures of our kernels, of libjpeg-turbo and of nvJPEG where it was measured. The first round is a warm-up.
func decodingRows(names []string, figures [][]float64) (rows []row) {
	for i, name := range names {
		figures[i] = figures[i][1:]
		rows = append(rows, measured(decodedInFull+name, "images/s", figures[i], ""))
	}
	best := row{what: "    exact kernels / nvJPEG's best", skipped: "there is no figure of nvJPEG's"}
	if len(figures) > 2 {
		best = measured(best.what, "x", ratios(figures[0], fastest(figures[2:])), "").atLeast(1)
	}
	return append(rows, measured("    exact kernels / libjpeg-turbo", "x", ratios(figures[0], figures[1]), ""), best)
}

// hold puts files into the host's part.
func (a *area) hold(files [][]byte) (held [][]byte, err error) {
	n := 0
	for _, data := range files {
		n += len(data)
	}
	if err := a.grow(n, 0); err != nil {
		return nil, err
	}
	rest := a.host
	for _, data := range files {
		held, rest = append(held, rest[:copy(rest, data)]), rest[len(data):]
	}
	return held, nil
}

// fastest is the best figure of each round.
func fastest(figures [][]float64) []float64 {
	best := append([]float64(nil), figures[0]...)
	for _, f := range figures[1:] {
		for i := range best {
			best[i] = max(best[i], f[i])
		}
	}
	return best
}

// rate measures images per second.
func rate(files [][]byte, work func(context.Context) error) side {
	return func(ctx context.Context) (float64, error) {
		began := time.Now()
		err := work(ctx)
		return float64(len(files)) / time.Since(began).Seconds(), err
	}
}

// byLibJPEG decodes files on all processors, each into one reused buffer.
func byLibJPEG(ctx context.Context, files [][]byte) error {
	return parallel.Each(ctx, runtime.NumCPU(), len(files), nil, func(_ context.Context, items iter.Seq[int]) error {
		d := decode.NewDecoder(decode.Options{Kernel: decode.LibJPEG})
		defer d.Close()
		var pix []byte
		for i := range items {
			h, err := decode.ReadHeader(files[i], true)
			if err != nil {
				return err
			}
			height, width := h.Size(false)
			if n := height * width * 3; n > len(pix) {
				pix = make([]byte, n)
			}
			if err := d.Decode(decode.Image{Pix: pix, Stride: width * 3, Height: height, Width: width}, files[i], h); err != nil {
				return err
			}
		}
		return nil
	})
}

// kernels decode files on the GPU, where the pixels stay: several batches are packed while others are decoded.
type kernels struct{ free chan *area }

func newKernels(driver gpu.Driver) kernels {
	k := kernels{make(chan *area, min(packers, runtime.NumCPU()))}
	for range cap(k.free) {
		k.free <- &area{driver: driver}
	}
	return k
}

func (k kernels) close() (err error) {
	for range cap(k.free) {
		err = errors.Join(err, (<-k.free).close())
	}
	return err
}

func (k kernels) decode(ctx context.Context, files [][]byte) error {
	var left atomic.Int64
	err := parallel.Each(ctx, cap(k.free), (len(files)+decodeBatch-1)/decodeBatch, nil, func(_ context.Context, items iter.Seq[int]) error {
		a := <-k.free
		defer func() { k.free <- a }()
		for i := range items {
			n, err := a.decode(files[i*decodeBatch : min(len(files), (i+1)*decodeBatch)])
			if err != nil {
				return err
			}
			left.Add(int64(n))
		}
		return nil
	})
	if n := left.Load(); err == nil && n > 0 {
		return fmt.Errorf("the kernels left %d of %d JPEGs to processors, so their speed means nothing", n, len(files))
	}
	return err
}

// decode decodes one batch in full, and returns how many files the kernels left.
func (a *area) decode(files [][]byte) (left int, err error) {
	p, err := fullPlan(files)
	if err != nil {
		return 0, err
	}
	if err := a.grow(p.Host(), p.Device()); err != nil {
		return 0, err
	}
	for i := range files {
		p.Put(a.host, i)
		if !p.Decodes(i) {
			left++
		}
	}
	at := a.device.Address
	p.Finish(a.host, at, at+uint64(p.Staging), at+uint64(p.Staging+p.Work))
	verdicts := a.host[p.Staging:][:p.Verdicts()]
	err = a.driver.Run(gpu.Run{Put: []gpu.Put{{To: at, From: a.host[:p.Staging]}}, At: at, Launches: p.Launches(), Back: []gpu.Back{{To: verdicts, From: at + uint64(p.Staging)}}})
	return left + len(p.Left(verdicts, nil)), err
}

// fullPlan plans to decode files to RGB, of their own size.
func fullPlan(files [][]byte) (*gpu.Plan, error) {
	var samples []gpu.Sample
	h, w := 1, 1
	for i, data := range files {
		head, err := decode.ReadHeader(data, true)
		if err != nil {
			return nil, err
		}
		tall, wide := head.Size(false)
		h, w = max(h, tall), max(w, wide)
		job := pixels.Options{}.Plan(head, resample.Options{Mode: resample.None}.Choose(0, int64(i), tall, wide), pixels.Target{})
		samples = append(samples, gpu.Sample{Slot: i, Job: job, Data: data})
	}
	converter, err := layout.NewConverter(layout.Uint8, 3, layout.Normalization{})
	if err != nil {
		return nil, err
	}
	spec, err := layout.NewSpec(len(files), h, w, 3, layout.Uint8, layout.NHWC)
	if err != nil {
		return nil, err
	}
	return gpu.NewPlan(gpu.Tensor{Spec: spec, Converter: converter}, samples)
}

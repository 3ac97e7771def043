package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/pixels"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/gpu"
	"github.com/batchfs/batchfs/layout"
)

const (
	exactPixels = 1 << 18 // of a slot, so that batches take little memory
	poison      = 0xDB    // what the memory contains before
)

// A checker makes batches of random samples in both ways.
type checker struct {
	area
	jpegs, others [][]byte
}

func newChecker(driver gpu.Driver, files [][]byte) *checker {
	c := &checker{area: area{driver: driver}}
	for _, data := range files {
		if decode.Sniff(data) == decode.JPEG {
			c.jpegs = append(c.jpegs, data)
		} else {
			c.others = append(c.others, data)
		}
	}
	return c
}

// file is one of the files, most often a JPEG, of which some are damaged.
func (c *checker) file(r *rand.Rand) []byte {
	switch r.IntN(8) {
	case 0, 1:
		return c.others[r.IntN(len(c.others))]
	case 2:
		return damaged(r, c.jpegs[r.IntN(len(c.jpegs))])
	}
	return c.jpegs[r.IntN(len(c.jpegs))]
}

// A trial is one batch.
type trial struct {
	options pixels.Options
	tensor  gpu.Tensor
	samples []gpu.Sample
	heads   []decode.Header
	whole   []resample.Transform
	want    []byte
	bad     []error // why a processor could not make a sample
}

// check makes the kth batch, of n samples.
func (c *checker) check(k uint64, n int) (tally, error) {
	r := rand.New(rand.NewPCG(k, 1))
	t, err := c.draw(r, n)
	if err != nil {
		return tally{}, err
	}
	decoder := decode.NewDecoder(t.options.Options)
	defer decoder.Close()
	t.onProcessor(decoder)
	p, err := gpu.NewPlan(t.tensor, t.samples)
	if err != nil {
		return tally{}, err
	}
	got, left, err := c.onGPU(p, t, decoder)
	if err != nil {
		return tally{}, err
	}
	return t.compare(p, got, left), nil
}

// draw chooses samples, and what is to be made of them.
func (c *checker) draw(r *rand.Rand, n int) (*trial, error) {
	t := &trial{bad: make([]error, n)}
	t.options.Color, t.options.IgnoreOrientation = decode.Color(r.IntN(2)), r.IntN(2) == 1
	t.options.Options.Kernel, t.options.FullJPEGs = decode.LibJPEG, true
	modes := []resample.Mode{resample.None, resample.Stretch, resample.NotLarger, resample.NotSmaller, resample.CenterCrop, resample.RandomResizedCrop}
	o := resample.Options{Mode: modes[r.IntN(len(modes))], Height: 1 + r.IntN(256), Width: 1 + r.IntN(256), ResizeTo: 256, Flip: .5, Seed: r.Uint64(),
		CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio}
	h, w := 1, 1
	for len(t.samples) < n {
		data := c.file(r)
		head, err := decode.ReadHeader(data, true)
		if err != nil || head.Width > 1<<10 || head.Height > 1<<10 {
			continue
		}
		tall, wide := head.Size(t.options.IgnoreOrientation)
		tr := o.Choose(1, int64(r.Uint32()), tall, wide)
		oh, ow := tr.Size()
		if _, _, ok := tr.Filters(); !ok || max(h, oh)*max(w, ow) > exactPixels {
			continue
		}
		h, w = max(h, oh), max(w, ow)
		t.samples = append(t.samples, gpu.Sample{Slot: len(t.samples), Job: t.options.Plan(head, tr, pixels.Target{}), Data: data})
		t.heads, t.whole = append(t.heads, head), append(t.whole, tr)
	}
	return t, t.shape(r, h, w)
}

// shape chooses the tensor.
func (t *trial) shape(r *rand.Rand, h, w int) (err error) {
	channels, dtype, norm := t.options.Color.Channels(), layout.DType(r.IntN(4)), layout.Normalization{}
	if dtype != layout.Uint8 {
		norm = layout.Normalization{Mean: []float64{123.675, 116.28, 103.53}[:channels], Std: []float64{58.395, 57.12, 57.375}[:channels]}
	}
	t.tensor.Fill = uint8(r.Uint32())
	if t.tensor.Converter, err = layout.NewConverter(dtype, channels, norm); err != nil {
		return err
	}
	t.tensor.Spec, err = layout.NewSpec(len(t.samples), h, w, channels, dtype, layout.Order(r.IntN(2)))
	return err
}

// damaged is a file with a few other bits, or without its end.
func damaged(r *rand.Rand, data []byte) []byte {
	data = bytes.Clone(data)
	if r.IntN(4) == 0 {
		return data[:len(data)/2+r.IntN(len(data)/2)]
	}
	for range 1 + r.IntN(3) {
		data[2+r.IntN(len(data)-2)] ^= 1 << r.IntN(8)
	}
	return data
}

// slot is the part of a tensor that belongs to sample i.
func (t *trial) slot(tensor []byte, i int) []byte {
	n := int(t.tensor.Spec.SampleBytes())
	return tensor[i*n:][:n]
}

// onProcessor makes the samples as mounts without a GPU do.
func (t *trial) onProcessor(decoder *decode.Decoder) {
	writer := layout.NewWriter(t.tensor.Converter, 0)
	defer writer.Close()
	t.want = make([]byte, t.tensor.Spec.Bytes())
	for i, s := range t.samples {
		job := t.options.Plan(t.heads[i], t.whole[i], pixels.Target{Sink: writer})
		h, w := t.whole[i].Size()
		writer.Begin(t.slot(t.want, i), t.tensor.Spec, h, w, t.whole[i].Flip, t.tensor.Fill)
		t.bad[i] = job.Run(decoder, s.Data, make([]byte, job.Memory))
		writer.End()
	}
}

// onGPU makes the tensor there, and says which samples the kernels have left.
func (c *checker) onGPU(p *gpu.Plan, t *trial, decoder *decode.Decoder) (tensor []byte, left map[int]bool, err error) {
	dirty := p.Device() - p.Staging // on the GPU
	if err := c.grow(p.Host()+dirty, p.Device()); err != nil {
		return nil, nil, err
	}
	for i, s := range t.samples {
		if !p.Decodes(i) && t.bad[i] == nil {
			task := s.Job.Task(s.Data, nil)
			if err := decoder.DecodeRegion(p.Pixels(c.host, i), s.Data, task.Header, task.Region, task.Scale); err != nil {
				return nil, nil, err
			}
		}
		p.Put(c.host, i)
	}
	at := c.device.Address
	work := at + uint64(p.Staging)
	batch := work + uint64(p.Work)
	p.Finish(c.host, at, work, batch)
	before := c.host[p.Host():][:dirty]
	for i := range before {
		before[i] = poison
	}
	if err := c.driver.Run(gpu.Run{Put: []gpu.Put{{To: work, From: before}}}); err != nil {
		return nil, nil, err
	}
	size := len(t.want)
	verdicts, tensor := c.host[p.Staging:][:p.Verdicts()], c.host[p.Host()-size:][:size]
	err = c.driver.Run(gpu.Run{Put: []gpu.Put{{To: at, From: c.host[:p.Staging]}}, At: at, Launches: p.Launches(), Back: []gpu.Back{{To: verdicts, From: work}, {To: tensor, From: batch}}})
	left = map[int]bool{}
	for _, i := range p.Left(verdicts, nil) {
		left[i] = true
	}
	return tensor, left, err
}

// compare counts the bytes that differ. What the kernels have left would be a processor's in a mount.
func (t *trial) compare(p *gpu.Plan, got []byte, left map[int]bool) tally {
	all := tally{samples: len(t.samples)}
	for i, s := range t.samples {
		switch {
		case left[i]:
			all.left++
			continue
		case p.Decodes(i):
			all.decoded++
		case t.bad[i] != nil:
			continue
		}
		differ := 0
		want, slot := t.slot(t.want, i), t.slot(got, i)
		for k := range want {
			if want[k] != slot[k] || t.bad[i] != nil {
				differ++
			}
		}
		all.bytes += len(want)
		if all.differ += differ; differ > 0 && all.first == "" {
			all.first = fmt.Sprintf("%d of %d bytes differ: %v of %dx%d, %d bytes, as %+v of %v (on a processor: %v)",
				differ, len(want), t.heads[i].Format, t.heads[i].Width, t.heads[i].Height, len(s.Data), s.Job.Transform, t.tensor.Spec.Shape(), t.bad[i])
		}
	}
	return all
}

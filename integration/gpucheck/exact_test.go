package gpucheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/fakegpu"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/parallel"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

const (
	batch       = 16      // samples that are made at once
	exactPixels = 1 << 18 // of a slot, so that batches take little memory
)

// A tally counts what was done with random samples.
type tally struct {
	samples, decoded, left int // decoded by the kernels, and left by them to a processor
	bytes, differ          int
	first                  string // difference
}

func (t *tally) add(o tally) {
	t.samples, t.decoded, t.left = t.samples+o.samples, t.decoded+o.decoded, t.left+o.left
	t.bytes, t.differ = t.bytes+o.bytes, t.differ+o.differ
	if t.first == "" {
		t.first = o.first
	}
}

// verdict is an error if the GPU's bytes are not those of the processors, or too few were compared.
func (t *tally) verdict() error {
	switch {
	case t.differ > 0:
		return fmt.Errorf("%d of %d bytes are unlike the processors'; first: %s", t.differ, t.bytes, t.first)
	case t.decoded < t.samples/4:
		return fmt.Errorf("the GPU decoded only %d of %d samples", t.decoded, t.samples)
	}
	return nil
}

// TestExact has the GPU make random samples, of whole and of damaged files, and compares them with
// what libjpeg-turbo, the resizer and a layout.Writer make on processors.
func TestExact(t *testing.T) {
	device := theGPU(t)
	_, photos := drawn(t, "photo", min(32, *images))
	_, mixed := drawn(t, "mixed", min(400, *cases))
	jpegs, others := contents(t, append(mixed, photos...))
	var mu sync.Mutex
	var all tally
	work := func(_ context.Context, items iter.Seq[int]) (err error) {
		driver, err := gpu.Find(device.UUID)
		if err != nil {
			return err
		}
		c := newChecker(driver, jpegs, others)
		defer func() { err = errors.Join(err, c.close()) }()
		for k := range items {
			found, err := c.check(uint64(k), min(batch, *cases-k*batch))
			if err != nil {
				return err
			}
			mu.Lock()
			all.add(found)
			mu.Unlock()
		}
		return nil
	}
	testkit.Must(t, parallel.Each(t.Context(), runtime.NumCPU(), (*cases+batch-1)/batch, nil, work))
	t.Logf("%d samples, %d bytes; %d JPEGs decoded on the GPU, %d left to processors",
		all.samples, all.bytes, all.decoded, all.left)
	if err := all.verdict(); err != nil {
		t.Error(err)
	}
}

// TestSanitizer repeats a few of the samples under NVIDIA's tools that watch the kernels.
func TestSanitizer(t *testing.T) {
	theGPU(t)
	sanitizer, err := exec.LookPath("compute-sanitizer")
	if err != nil {
		t.Skip("SKIPPED: compute-sanitizer is not installed")
	}
	for _, tool := range []string{"memcheck", "racecheck", "synccheck"} {
		t.Run(tool, func(t *testing.T) {
			args := []string{"--tool", tool, "--error-exitcode", "9", os.Args[0], "-test.run", "^TestExact$",
				"-cases", strconv.Itoa(min(50, *cases)), "-images", "8", "-batchfs", *binary}
			if out, err := exec.CommandContext(t.Context(), sanitizer, args...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// contents reads files, JPEGs and others.
func contents(t *testing.T, paths []string) (jpegs, others [][]byte) {
	t.Helper()
	for _, path := range paths {
		data, err := os.ReadFile(path)
		testkit.Must(t, err)
		if decode.Sniff(data) == decode.JPEG {
			jpegs = append(jpegs, data)
		} else {
			others = append(others, data)
		}
	}
	return jpegs, others
}

// A checker makes batches of random samples in both ways.
type checker struct {
	hostMemory
	jpegs, others [][]byte
}

func newChecker(driver gpu.Driver, jpegs, others [][]byte) *checker {
	return &checker{hostMemory{device: gpu.New(driver, gpu.Options{})}, jpegs, others}
}

func (c *checker) close() error {
	c.free()
	return c.device.Close()
}

// file is one of the files, most often a JPEG, some of which are damaged.
func (c *checker) file(r *rand.Rand) []byte {
	switch r.IntN(8) {
	case 0, 1:
		return c.others[r.IntN(len(c.others))]
	case 2:
		return damaged(r, c.jpegs[r.IntN(len(c.jpegs))])
	}
	return c.jpegs[r.IntN(len(c.jpegs))]
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
func (c *checker) check(k uint64, n int) (all tally, err error) {
	r := rand.New(rand.NewPCG(k, 1))
	t, err := c.draw(r, n)
	if err != nil {
		return all, err
	}
	decoder := decode.NewDecoder(t.options.Options)
	defer decoder.Close()
	t.onProcessor(decoder)
	p, err := gpu.NewPlan(t.tensor, t.samples)
	if err != nil {
		return all, err
	}
	got, left, err := c.onGPU(p, t, decoder)
	if err != nil {
		return all, err
	}
	return t.compare(p, got, left), nil
}

// draw chooses samples, and what is to be made of them.
func (c *checker) draw(r *rand.Rand, n int) (*trial, error) {
	t := &trial{bad: make([]error, n)}
	t.options.Color, t.options.IgnoreOrientation = decode.Color(r.IntN(2)), r.IntN(2) == 1
	t.options.Options.Kernel, t.options.FullJPEGs = decode.LibJPEG, true
	modes := []resample.Mode{
		resample.None, resample.Stretch, resample.NotLarger, resample.NotSmaller, resample.CenterCrop, resample.RandomResizedCrop,
	}
	o := resample.Options{
		Mode: modes[r.IntN(len(modes))], Height: 1 + r.IntN(256), Width: 1 + r.IntN(256), ResizeTo: 256,
		Flip: .5, Seed: r.Uint64(), CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio,
	}
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
		job := t.options.Plan(head, tr, pixels.Target{})
		t.samples = append(t.samples, gpu.Sample{Slot: len(t.samples), Job: job, Data: data})
		t.heads, t.whole = append(t.heads, head), append(t.whole, tr)
	}
	return t, t.shape(r, h, w)
}

// shape chooses the tensor.
func (t *trial) shape(r *rand.Rand, h, w int) (err error) {
	channels, dtype, norm := t.options.Color.Channels(), layout.DType(r.IntN(4)), layout.Normalization{}
	if dtype != layout.Uint8 {
		norm.Mean = []float64{123.675, 116.28, 103.53}[:channels]
		norm.Std = []float64{58.395, 57.12, 57.375}[:channels]
	}
	t.tensor.Fill = uint8(r.Uint32())
	if t.tensor.Converter, err = layout.NewConverter(dtype, channels, norm); err != nil {
		return err
	}
	t.tensor.Spec, err = layout.NewSpec(len(t.samples), h, w, channels, dtype, layout.Order(r.IntN(2)))
	return err
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

// onGPU makes the tensor on the GPU, as mounts do, and returns the samples that the kernels have
// left.
func (c *checker) onGPU(p *gpu.Plan, t *trial, decoder *decode.Decoder) (tensor []byte, left []int, err error) {
	if err := c.dirty(max(p.Host(), p.Device()), int64(p.Device())); err != nil {
		return nil, nil, err
	}
	for i, s := range t.samples {
		if !p.Decodes(i) && t.bad[i] == nil {
			task := s.Job.Task(s.Data, nil)
			if err := decoder.DecodeRegion(p.Pixels(c.bytes, i), s.Data, task.Header, task.Region, task.Scale); err != nil {
				return nil, nil, err
			}
		}
		p.Put(c.bytes, i)
	}
	return c.device.Make(p, c.bytes)
}

// dirty makes the host's memory large enough, and fills it and the GPU's with arbitrary bytes.
func (c *checker) dirty(host int, device int64) error {
	if err := c.grow(host); err != nil {
		return err
	}
	for i := range c.bytes {
		c.bytes[i] = fakegpu.Poison
	}
	slot, err := c.device.Slot(device) // which Make takes next
	if err != nil {
		return err
	}
	defer slot.Release()
	return c.device.Run(gpu.Run{Put: []gpu.Put{{To: slot.Address(), From: c.bytes[:device]}}})
}

// compare counts the bytes that differ. In a mount, a processor would make what the kernels have
// left.
func (t *trial) compare(p *gpu.Plan, got []byte, left []int) tally {
	all := tally{samples: len(t.samples)}
	for i, s := range t.samples {
		switch {
		case slices.Contains(left, i):
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
			h, shape := t.heads[i], t.tensor.Spec.Shape()
			all.first = fmt.Sprintf("%d of %d bytes differ: %v of %dx%d, %d bytes, as %+v of %v (on a processor: %v)",
				differ, len(want), h.Format, h.Width, h.Height, len(s.Data), s.Job.Transform, shape, t.bad[i])
		}
	}
	return all
}

// A liar is a GPU that returns other bytes than it made, or none.
type liar struct {
	gpu.Driver
	change func(run gpu.Run)
	idle   bool
}

func (l liar) Run(r gpu.Run) error {
	if l.idle {
		r.Launches = nil
	}
	err := l.Driver.Run(r)
	if l.change != nil {
		l.change(r)
	}
	return err
}

// TestExactnessIsChecked: a GPU that makes the right bytes passes the check. A GPU that changes a
// single byte does not, nor does one that makes nothing.
func TestExactnessIsChecked(t *testing.T) {
	if !fakegpu.Kernels {
		t.Skip("SKIPPED: the kernels need cgo")
	}
	var names []string
	for _, pattern := range []string{"samples/*.jpg", "oriented/*.jpg", "oriented/*.png"} {
		some, err := filepath.Glob(filepath.Join("../../decode/testdata", pattern))
		if err != nil || len(some) == 0 {
			t.Skipf("SKIPPED: no files %s here: %v", pattern, err)
		}
		names = append(names, some...)
	}
	jpegs, others := contents(t, names)
	check := func(l liar) (all tally) {
		l.Driver = &fakegpu.GPU{Memory: 1 << 30}
		c := newChecker(l, jpegs, others)
		for k := range uint64(6) {
			found, err := c.check(k, 8)
			testkit.Must(t, err)
			all.add(found)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
		return all
	}
	right := check(liar{})
	if err := right.verdict(); err != nil || right.bytes == 0 {
		t.Errorf("%+v: %v", right, err)
	}
	changed := 0
	wrong := check(liar{change: func(r gpu.Run) {
		if len(r.Back) < 2 { // it only makes the memory dirty
			return
		}
		verdicts, tensor := r.Back[0].To, r.Back[1].To
		left := slices.ContainsFunc(verdicts, func(b byte) bool { return b != 0 })
		if changed == 0 && len(verdicts) > 0 && !left {
			tensor[0] ^= 1
			changed++
		}
	}})
	if err := wrong.verdict(); err == nil || wrong.differ != changed || changed != 1 {
		t.Errorf("one other byte: %+v: %v", wrong, err)
	}
	idle := check(liar{idle: true})
	if err := idle.verdict(); err == nil {
		t.Errorf("a GPU that does nothing: %+v", idle)
	}
	few := tally{samples: 100, decoded: 10, bytes: 1}
	if few.verdict() == nil {
		t.Error("too few samples were compared")
	}
}

// TestCopies: the bytes that are copied to the GPU are those that readers of host memory get,
// whether processors or the GPU decode.
func TestCopies(t *testing.T) {
	device := theGPU(t)
	for _, decoder := range []string{"off", "exact"} {
		t.Run(decoder, func(t *testing.T) {
			m := mounted(t, device, "--gpu-decode", decoder)
			if err := same(device, m.Batch(0, 0, 0), m.Batch(0, 1, 0), m.Batch(0, 2, 0)); err != nil {
				t.Error(err)
			}
		})
	}
}

//go:build cgo

package gpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/pixels"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/layout"
)

// jpegs are files of all kinds, most of which the kernels decode.
func jpegs(t testing.TB) (all [][]byte) {
	for _, pattern := range []string{"*.jpg", "oriented/*.jpg", "regions/*.jpg", "samples/*.jpg", "progressive/usual-*.jpg"} {
		names, err := filepath.Glob(filepath.Join("../decode/testdata", pattern))
		if err != nil || names == nil {
			t.Fatalf("%s: no files (%v)", pattern, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, data)
		}
	}
	return all
}

// damage changes a file: bits, bytes, lengths, or the order of its parts.
func damage(r *rand.Rand, data []byte) []byte {
	data = bytes.Clone(data)
	at := func() int { return 2 + r.IntN(len(data)-2) }
	switch r.IntN(8) {
	case 0:
		return data[:at()]
	case 1:
		i := at()
		return append(data[:i], data[min(i+1+r.IntN(8), len(data)):]...)
	case 2:
		i := at()
		return append(data[:i:i], append([]byte{byte(r.Uint32()), byte(r.Uint32())}, data[i:]...)...)
	case 3:
		i := at()
		return append(data[:i:i], append([]byte{0xff, 0xd0 + byte(r.IntN(10))}, data[i:]...)...)
	case 4:
		i := bytes.LastIndex(data, []byte{0xff, 0xda}) // in the scan's data, mostly
		i += r.IntN(len(data) - max(i, 0))
		data[max(i, 0)] = byte(r.Uint32())
	default:
		for range 1 + r.IntN(3) {
			data[at()] ^= 1 << r.IntN(8)
		}
	}
	return data
}

// A judge decodes as mounts do, with libjpeg-turbo, and knows which files our own decoder reads.
type judge struct {
	options      pixels.Options
	libjpeg, own *decode.Decoder
}

func newJudge(t testing.TB, color decode.Color, ignoreOrientation bool) judge {
	o := decode.Options{Color: color, IgnoreOrientation: ignoreOrientation}
	j := judge{options: pixels.Options{Options: o, FullJPEGs: color == decode.RGB}}
	o.Kernel = decode.LibJPEG
	j.libjpeg = decode.NewDecoder(o)
	o.Kernel = decode.Portable
	j.own = decode.NewDecoder(o)
	t.Cleanup(j.libjpeg.Close)
	t.Cleanup(j.own.Close)
	return j
}

// asked is what a sample is asked for.
type asked struct {
	head      decode.Header
	transform resample.Transform // of the whole image
}

// counts says what became of files.
type counts struct{ files, decoded, left, unsuited, bytes int }

// decodeBatch decodes files on h. The error is the first difference from the processor.
func (j *judge) decodeBatch(t testing.TB, h *host, r *rand.Rand, files [][]byte, n *counts) error {
	t.Helper()
	o := randomOptions(r, 70)
	var samples []Sample
	var wants []asked
	H, W := 1, 1
	for _, data := range files {
		n.files++
		head, err := decode.ReadHeader(data, true)
		if err != nil || head.Format != decode.JPEG || head.Width*head.Height > 1<<20 {
			n.unsuited++
			continue
		}
		tall, wide := head.Size(j.options.IgnoreOrientation)
		tr := o.Choose(1, int64(r.Uint32()), tall, wide)
		oh, ow := tr.Size()
		if _, _, ok := tr.Filters(); !ok || max(H, oh)*max(W, ow) > 1<<20 {
			n.unsuited++
			continue
		}
		samples = append(samples, Sample{Slot: len(samples), Job: j.options.Plan(head, tr, pixels.Target{}), Data: data})
		wants = append(wants, asked{head, tr})
		H, W = max(H, oh), max(W, ow)
	}
	tensor := randomTensor(t, r, len(samples), H, W, j.options.Color.Channels())
	p, err := newPlan(tensor, samples, []int{64, 333, 1024, stretchBits}[r.IntN(4)])
	if err != nil {
		t.Fatal(err)
	}
	p.grid = []int{1, 2, mostGrid}[r.IntN(3)]
	staging, size := make([]byte, p.Staging), int(tensor.Spec.SampleBytes())
	for i := range samples {
		p.Put(staging, i)
	}
	p.Finish(staging, 0, 0, 0)
	got, verdicts, err := h.run(p, staging)
	if err != nil {
		return err
	}
	left := map[int]bool{}
	for _, i := range p.Left(verdicts, nil) {
		left[i] = true
	}
	writer := layout.NewWriter(tensor.Converter, 0)
	defer writer.Close()
	want := make([]byte, size)
	for i := range samples {
		if err := j.compare(p, i, !p.Decodes(i) || left[i], wants[i], got[i*size:][:size], want, writer, n); err != nil {
			return err
		}
	}
	return nil
}

// compare checks one sample: it is left exactly if our own decoder leaves it to libjpeg-turbo, and if not,
// libjpeg-turbo decodes it to the same bytes.
func (j *judge) compare(p *Plan, i int, left bool, a asked, got, want []byte, w *layout.Writer, n *counts) error {
	s := &p.samples[i]
	progressive := bytes.Contains(s.Data, []byte{0xff, 0xc2})
	region := s.Job.Region
	scratch := decode.Image{Pix: make([]byte, s.Job.Height*s.Job.Width*3), Stride: s.Job.Width * p.tensor.Spec.C, Height: s.Job.Height, Width: s.Job.Width}
	j.own.TakeJPEGs()
	_ = j.own.DecodeRegion(scratch, s.Data, a.head, region, s.Job.Scale) // only who decodes it is of interest
	if ours := j.own.TakeJPEGs().Baseline == 1; ours == left && !progressive {
		return fmt.Errorf("%dx%d, %+v, in stretches of %d: our own decoder takes it: %v, the kernels leave it: %v; %d bytes: %x",
			a.head.Width, a.head.Height, region, p.bits, ours, left, len(s.Data), s.Data[:min(len(s.Data), 400)])
	}
	if left {
		n.left++
		return nil
	}
	tall, wide := s.Job.Transform.Size()
	w.Begin(want, p.tensor.Spec, tall, wide, s.Job.Transform.Flip, p.tensor.Fill)
	plan := j.options.Plan(a.head, a.transform, pixels.Target{Sink: w})
	err := plan.Run(j.libjpeg, s.Data, make([]byte, plan.Memory))
	w.End()
	if err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("%dx%d, %+v, orientation %d, in stretches of %d: %d of %d bytes differ from libjpeg-turbo's (%v)",
			a.head.Width, a.head.Height, region, a.head.Orientation, p.bits, different(got, want), len(want), err)
	}
	n.decoded, n.bytes = n.decoded+1, n.bytes+len(want)
	return nil
}

// some returns n of the files.
func some(r *rand.Rand, files [][]byte, n int) (chosen [][]byte) {
	for range n {
		chosen = append(chosen, files[r.IntN(len(files))])
	}
	return chosen
}

// decodeAll decodes n files, damaged ones if it is told to.
func decodeAll(t *testing.T, h *host, seed uint64, batches int, damaged bool) {
	r, files, n := rand.New(rand.NewPCG(seed, 3)), jpegs(t), counts{}
	judges := []judge{newJudge(t, decode.RGB, false), newJudge(t, decode.RGB, true), newJudge(t, decode.Gray, false)}
	for range batches {
		chosen := some(r, files, 1+r.IntN(16))
		for i := range chosen {
			if damaged {
				chosen[i] = damage(r, chosen[i])
			}
		}
		if err := judges[r.IntN(len(judges))].decodeBatch(t, h, r, chosen, &n); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%+v", n)
	if n.decoded < n.files/10 {
		t.Error("too few were decoded")
	}
}

// TestDecode: the kernels decode what our own decoder of baseline JPEGs does, to libjpeg-turbo's pixels.
func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name    string
		program func(testing.TB) string
		batches int
		damaged bool
	}{
		{"source", sanitized, 300, false},
		{"damaged", sanitized, 1500, true},
		{"ptx", func(t testing.TB) string { return compilePTX(t, PTX) }, 12, false},
		{"threads", threaded, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			decodeAll(t, start(t, c.program(t)), 1, c.batches, c.damaged)
		})
	}
}

//go:build cgo

package gpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// jpegs are files of all kinds, most of which the kernels decode.
func jpegs(t testing.TB) [][]byte {
	return testkit.Pictures(t, "*.jpg", "oriented/*.jpg", "regions/*.jpg", "samples/*.jpg", "progressive/usual-*.jpg")
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

// asked describes what is requested of a sample.
type asked struct {
	head      decode.Header
	transform resample.Transform // of the whole image
}

// counts says what became of files.
type counts struct{ files, decoded, left, unsuited, bytes int }

// A trial is a batch of JPEGs.
type trial struct {
	*Plan
	j     *judge
	wants []asked
	files []int // which of the files the samples are
}

// try plans a batch of the suitable files, in stretches of bits bits.
func (j *judge) try(t testing.TB, r *rand.Rand, mode resample.Mode, f format, files [][]byte, bits int) *trial {
	t.Helper()
	o, b := randomOptions(r, mode, 40), &trial{j: j}
	var samples []Sample
	H, W := 1, 1
	for i, data := range files {
		head, err := decode.ReadHeader(data, true)
		if err != nil || head.Format != decode.JPEG || head.Width*head.Height > 1<<18 {
			continue
		}
		tall, wide := head.Size(j.options.IgnoreOrientation)
		tr := o.Choose(1, int64(r.Uint32()), tall, wide)
		oh, ow := tr.Size()
		if _, _, ok := tr.Filters(); !ok || len(files)*max(H, oh)*max(W, ow) > 1<<21 {
			continue
		}
		samples = append(samples, Sample{Slot: len(samples), Job: j.options.Plan(head, tr, pixels.Target{}), Data: data})
		b.wants, b.files = append(b.wants, asked{head, tr}), append(b.files, i)
		H, W = max(H, oh), max(W, ow)
	}
	var err error
	b.Plan, err = newPlan(f.tensor(t, r, len(samples), H, W, j.options.Color.Channels()), samples, bits)
	testkit.Must(t, err)
	b.grid = []int{1, 2, mostGrid}[r.IntN(3)]
	return b
}

func randomBits(r *rand.Rand) int { return []int{64, 333, 1024, stretchBits}[r.IntN(4)] }

func (b *trial) staging() []byte {
	staging := make([]byte, b.Staging)
	for i := range b.samples {
		b.Put(staging, i)
	}
	b.Finish(staging, 0, 0, 0)
	return staging
}

// decodeBatch decodes files with all programs. The error is the first difference from the
// processor.
func (j *judge) decodeBatch(t testing.TB, hosts []*host, r *rand.Rand, mode resample.Mode, f format, files [][]byte, n *counts) error {
	t.Helper()
	b := j.try(t, r, mode, f, files, randomBits(r))
	n.files, n.unsuited = n.files+len(files), n.unsuited+len(files)-len(b.files)
	wait := runAll(hosts, b.Plan, b.staging())
	size, want, ours := int(b.tensor.Spec.SampleBytes()), make([]byte, b.tensor.Spec.Bytes()), make([]bool, len(b.samples))
	errs := make([]error, len(b.samples))
	writer := layout.NewWriter(b.tensor.Converter, 0)
	defer writer.Close()
	for i := range b.samples {
		ours[i], errs[i] = b.want(i, want[i*size:][:size], writer)
	}
	for _, made := range wait() {
		if made.err != nil {
			return fmt.Errorf("%s: %w", made.by.name, made.err)
		}
		left := make([]bool, len(b.samples))
		for _, i := range b.left(made.verdicts, nil) {
			left[i] = true
		}
		for i := range b.samples {
			left[i] = left[i] || !b.Decodes(i)
			if err := b.compare(i, ours[i], left[i], made.slots[i*size:][:size], want[i*size:][:size], errs[i]); err != nil {
				return fmt.Errorf("%s: %w", made.by.name, err)
			}
			if made.by == hosts[0] && left[i] {
				n.left++
			} else if made.by == hosts[0] {
				n.decoded, n.bytes = n.decoded+1, n.bytes+size
			}
		}
	}
	return nil
}

// rgb finds a JPEG that stores RGB, by an Adobe marker or the names of its components.
var rgb = regexp.MustCompile(`(?s)Adobe.{6}\x00|\x03R..G..B`)

// want makes sample i on the processor, and reports whether the kernels should decode it:
// everything that our own decoder takes, except at reduced scales and to gray from RGB.
func (b *trial) want(i int, slot []byte, w *layout.Writer) (ours bool, err error) {
	s, a, j := &b.samples[i], b.wants[i], b.j
	scratch := decode.Image{Pix: make([]byte, s.Job.Height*s.Job.Width*3), Stride: s.Job.Width * b.tensor.Spec.C, Height: s.Job.Height, Width: s.Job.Width}
	j.own.TakeJPEGs()
	_ = j.own.DecodeRegion(scratch, s.Data, a.head, s.Job.Region, s.Job.Scale) // only who decodes it is of interest
	gray := b.tensor.Spec.C == 1
	ours = j.own.TakeJPEGs().Baseline == 1 && s.Job.Scale == 1 && !(gray && rgb.Match(s.Data))
	tall, wide := s.Job.Transform.Size()
	w.Begin(slot, b.tensor.Spec, tall, wide, s.Job.Transform.Flip, b.tensor.Fill)
	defer w.End()
	plan := j.options.Plan(a.head, a.transform, pixels.Target{Sink: w})
	return ours, plan.Run(j.libjpeg, s.Data, make([]byte, plan.Memory))
}

// compare checks one sample: the kernels must leave it exactly if they should, and otherwise
// libjpeg-turbo must decode it to the same bytes.
func (b *trial) compare(i int, ours, left bool, got, want []byte, err error) error {
	s, a := &b.samples[i], b.wants[i]
	if progressive := bytes.Contains(s.Data, []byte{0xff, 0xc2}); ours == left && !progressive {
		return fmt.Errorf("%dx%d, %+v, in stretches of %d: the kernels should take it: %v, they leave it: %v; %d bytes: %x",
			a.head.Width, a.head.Height, s.Job.Region, b.bits, ours, left, len(s.Data), s.Data[:min(len(s.Data), 400)])
	}
	if !left && (err != nil || !bytes.Equal(got, want)) {
		return fmt.Errorf("%dx%d, %+v, orientation %d, in stretches of %d: %d of %d bytes differ from libjpeg-turbo's (%v)",
			a.head.Width, a.head.Height, s.Job.Region, a.head.Orientation, b.bits, different(got, want), len(want), err)
	}
	return nil
}

// some returns n of the files.
func some(r *rand.Rand, files [][]byte, n int) (chosen [][]byte) {
	for range n {
		chosen = append(chosen, files[r.IntN(len(files))])
	}
	return chosen
}

// TestDecode: the kernels decode every kind of baseline JPEG that our own decoder takes, to
// libjpeg-turbo's pixels, for every mode, type, order, orientation and sampling.
func TestDecode(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: this run is a short one, and all cases of sampling, orientation, mode and format take long")
	}
	t.Parallel()
	hosts, threads := startAll(t)
	r, cases, sizes, inThreads := rand.New(rand.NewPCG(1, 3)), covered{}, covered{}, counts{}
	judges := []judge{newJudge(t, decode.RGB, false), newJudge(t, decode.Gray, false), newJudge(t, decode.RGB, true)}
	n := make([]counts, len(judges))
	for i := range len(judges) * len(modes) * 4 * 2 {
		by := i % len(judges)
		j, mode, f := &judges[by], i/3%len(modes), format{layout.DType(i / 15 % 4), layout.Order(i / 60)}
		var files [][]byte
		for k, sampling := range samplings {
			for orientation := 1; orientation <= 8; orientation++ {
				files = append(files, forge(r, sampling, orientation, []int{9, 17, 33, 100}[r.IntN(4)]))
				head, err := decode.ReadHeader(files[len(files)-1], true)
				if err != nil || int(head.Orientation) != orientation {
					t.Fatal(head, err)
				}
				cases[[5]int{mode, int(f.dtype), int(f.order), orientation, k}]++
				sizes[[5]int{head.Height % 8, head.Width % 8, k}]++
			}
		}
		testkit.Must(t, j.decodeBatch(t, hosts, r, modes[mode], f, files, &n[by]))
		testkit.Must(t, j.decodeBatch(t, []*host{threads}, r, modes[mode], f, some(r, files, 4), &inThreads))
	}
	cases.all(t, len(modes)*4*2*8*len(samplings))
	sizes.all(t, 8*8*len(samplings))
	if n[0].decoded != n[0].files || n[2].decoded != n[2].files || n[1].decoded < n[1].files*9/10 { // gray ones may be wanted smaller
		t.Error("too few were decoded")
	}
	t.Logf("as source and as PTX: %+v, %d cases; in several threads: %+v", n, len(cases), inThreads)
}

// TestDecodeEdges: cases that random damage hardly ever makes, in all kinds of crops.
func TestDecodeEdges(t *testing.T) {
	t.Parallel()
	hosts, _ := startAll(t)
	whole, small, peaks := flat{side: 88}.forge(), flat{side: 152, short: true}.forge(), flat{side: 88, peaks: true}.forge()
	within := bytes.Index(small, []byte{0xff, 0xda}) + 14 + (11*19*9-1)/8
	end := []byte{0xff, 0xd9}
	for _, c := range []struct {
		name    string
		data    []byte
		decoded bool // some of the crops
	}{
		{"the data ends in the last code of row 11, and zeros complete it", slices.Concat(small[:within], end, make([]byte, 100), end), true},
		{"a byte more than there should be", slices.Concat(whole[:len(whole)-2], []byte{0}, end), true},
		{"a value beyond 16 bits, whose lower 16 are 0", peaks, false},
	} {
		j, n := newJudge(t, decode.RGB, false), counts{}
		if err := j.decodeBatch(t, hosts, rand.New(rand.NewPCG(1, 1)), resample.RandomResizedCrop, format{}, slices.Repeat([][]byte{c.data}, 50), &n); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if n.left == 0 || (n.decoded > 0) != c.decoded {
			t.Errorf("%s: %+v", c.name, n)
		}
	}
}

// TestDecodeDamaged: of other encoders' files and of damaged ones, the kernels decode exactly those
// that our own decoder does, to the same pixels; threads do not race.
func TestDecodeDamaged(t *testing.T) {
	t.Parallel()
	hosts, threads := startAll(t)
	r, others, n, inThreads := rand.New(rand.NewPCG(3, 3)), jpegs(t), counts{}, counts{}
	judges := []judge{newJudge(t, decode.RGB, false), newJudge(t, decode.Gray, false), newJudge(t, decode.RGB, true)}
	most := 3500
	if testing.Short() {
		most = 1200
	}
	for i := 0; n.files-n.unsuited < most; i++ {
		files := some(r, others, 16)
		for range 48 {
			files = append(files, forge(r, samplings[r.IntN(len(samplings))], 1+r.IntN(8), []int{9, 17, 33, 60}[r.IntN(4)]))
		}
		for k := range files {
			if k%4 > 0 || k >= 16 { // a quarter of the others' are as they were
				files[k] = damage(r, files[k])
			}
		}
		j := &judges[i%len(judges)]
		testkit.Must(t, j.decodeBatch(t, hosts, r, randomMode(r), randomFormat(r), files, &n))
		testkit.Must(t, j.decodeBatch(t, []*host{threads}, r, randomMode(r), randomFormat(r), files[:4], &inThreads))
	}
	t.Logf("as source and as PTX: %+v; in several threads: %+v", n, inThreads)
	if n.decoded < n.files/8 || n.left < n.files/10 {
		t.Error("too few were decoded, or left")
	}
}

// TestDecodeAstray: flat images never bring decoders into step, so each stretch waits for those
// before it. Images that take too long are left to the processor.
func TestDecodeAstray(t *testing.T) {
	hosts, _ := startAll(t)
	j := newJudge(t, decode.RGB, false)
	for _, c := range []struct {
		flat
		left int
	}{{flat{side: 320}, 0}, {flat{side: 448}, 1}, {flat{side: 448, restarts: true}, 0}} {
		b := j.try(t, rand.New(rand.NewPCG(4, 3)), resample.Stretch, format{}, [][]byte{c.forge()}, 1024)
		want := make([]byte, b.tensor.Spec.Bytes())
		writer := layout.NewWriter(b.tensor.Converter, 0)
		if ours, err := b.want(0, want, writer); !ours || err != nil {
			t.Fatalf("%+v: %v, %v", c, ours, err)
		}
		writer.Close()
		for _, made := range runAll(hosts, b.Plan, b.staging())() {
			if n := len(b.left(made.verdicts, nil)); made.err != nil || n != c.left || n == 0 && !bytes.Equal(made.slots, want) {
				t.Errorf("%+v, %s: %d are left (%v)", c, made.by.name, n, made.err)
			}
		}
	}
}

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/shard"
)

// A plane is pixels in memory, channels interleaved.
type plane struct {
	h, w, c int
	values  []byte
}

// settings are the options that determine the bytes of batches.
type settings struct {
	batch         int // 0: 8
	shards        int // 0: 1
	shuffle       bool
	seed          uint64
	stick         bool
	unpadded      bool
	last          shard.LastBatch
	height, width int // 0: of the largest image in each batch
	gray          bool
	fill          uint8
	nchw          bool
	ignore        bool // ignore EXIF orientation
}

func (s settings) complete() settings {
	s.batch, s.shards = max(s.batch, 1), max(s.shards, 1)
	return s
}

// flags returns the settings as flags, followed by more flags.
func (s settings) flags(more ...string) []string {
	s = s.complete()
	flags := []string{
		"--batch-size", strconv.Itoa(s.batch), "--shards", strconv.Itoa(s.shards), "--seed", strconv.FormatUint(s.seed, 10),
		"--last-batch", s.last.String(), "--fill", strconv.Itoa(int(s.fill)),
		fmt.Sprintf("--shuffle=%v", s.shuffle), fmt.Sprintf("--stick-to-shard=%v", s.stick), fmt.Sprintf("--pad-last-batch=%v", !s.unpadded),
		fmt.Sprintf("--ignore-orientation=%v", s.ignore),
	}
	if s.height > 0 {
		flags = append(flags, "--size", fmt.Sprintf("%dx%d", s.height, s.width))
	}
	if s.gray {
		flags = append(flags, "--color", "gray")
	}
	if s.nchw {
		flags = append(flags, "--layout", "nchw")
	}
	return append(flags, more...)
}

// An oracle computes the right contents of a mount from the dataset's files, by decoding
// each file separately, in order, and placing its pixels by hand. It shares only the
// decoders and the plan with batchfs, which have their own oracles.
type oracle struct {
	ds      *dataset.Dataset
	plan    *shard.Plan
	o       settings
	options decode.Options
	decoder *decode.Decoder
	decoded map[int64]plane
}

func newOracle(t testing.TB, path string, s settings) *oracle {
	t.Helper()
	s = s.complete()
	ds, err := dataset.Open(context.Background(), path, dataset.Options{Prober: probe})
	check(t, err)
	config := shard.Config{
		Samples: int64(ds.Len()), Shards: s.shards, BatchSize: s.batch, Shuffle: s.shuffle, Seed: s.seed,
		StickToShard: s.stick, PadLastBatch: !s.unpadded, LastBatch: s.last,
	}
	if s.shuffle {
		config.Costs = shard.NewCosts(int64(ds.Len()), func(i int64) shard.Cost {
			switch ds.Format(int(i)) {
			case "bmp", "pnm":
				return shard.Raw
			case "packed":
				return shard.Packed
			}
			return shard.Encoded
		})
	}
	plan, err := shard.New(config)
	check(t, err)
	o := &oracle{ds: ds, plan: plan, o: s, options: decode.Options{IgnoreOrientation: s.ignore}, decoded: map[int64]plane{}}
	if s.gray {
		o.options.Color = decode.Gray
	}
	o.decoder = decode.NewDecoder(o.options)
	t.Cleanup(func() {
		o.decoder.Close()
		if err := ds.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func probe(data, _ []byte, size int64) (dataset.Header, error) {
	h, err := decode.ReadHeader(data, int64(len(data)) == size)
	if errors.Is(err, decode.ErrShort) {
		return dataset.Header{}, fmt.Errorf("%w: %w", dataset.ErrShort, err)
	}
	return dataset.Header{Format: h.Format.String(), Height: h.Height, Width: h.Width, Orientation: h.Orientation}, err
}

// picture decodes a sample's file, once.
func (o *oracle) picture(t testing.TB, id int64) plane {
	t.Helper()
	if p, ok := o.decoded[id]; ok {
		return p
	}
	data := mustRead(t, filepath.Join(o.ds.Root, o.ds.Path(int(id))))
	head, err := decode.ReadHeader(data, true)
	check(t, err)
	p := plane{c: o.channels()}
	p.h, p.w = head.Size(o.o.ignore)
	p.values = make([]byte, p.h*p.w*p.c)
	check(t, o.decoder.Decode(decode.Image{Pix: p.values, Stride: p.w * p.c, Height: p.h, Width: p.w}, data, head))
	o.decoded[id] = p
	return p
}

func (o *oracle) channels() int {
	if o.o.gray {
		return 1
	}
	return 3
}

// A want is the right content of a batch.
type want struct {
	n, h, w, c  int
	valid       int
	pixels      []byte // nhwc
	labels, ids []int64
	sizes       [][2]int32
	paths       []string
}

func (o *oracle) batch(t testing.TB, s, epoch, batch int) want {
	t.Helper()
	slots, valid := o.plan.Batch(s, epoch, batch, nil)
	x := want{n: len(slots), h: o.o.height, w: o.o.width, c: o.channels(), valid: valid}
	pictures := make([]plane, len(slots))
	for i, slot := range slots {
		p := o.picture(t, slot.ID)
		pictures[i] = p
		x.sizes = append(x.sizes, [2]int32{int32(p.h), int32(p.w)})
		x.ids = append(x.ids, slot.ID)
		x.labels = append(x.labels, int64(o.ds.Label(int(slot.ID))))
		x.paths = append(x.paths, o.ds.Path(int(slot.ID)))
		if o.o.height == 0 {
			x.h, x.w = max(x.h, p.h), max(x.w, p.w)
		}
	}
	if len(slots) == 0 && o.o.height == 0 {
		x.h, x.w = 1, 1
	}
	x.pixels = bytes.Repeat([]byte{o.o.fill}, x.n*x.h*x.w*x.c)
	for i, p := range pictures {
		row := p.w * x.c
		for y := range p.h {
			copy(x.pixels[((i*x.h+y)*x.w)*x.c:], p.values[y*row:(y+1)*row])
		}
	}
	return x
}

// planes returns the pixels as nchw.
//
//go:norace
func (x want) planes() []byte {
	out := make([]byte, len(x.pixels))
	i := 0
	for n := range x.n {
		for c := range x.c {
			for p := range x.h * x.w {
				out[i] = x.pixels[(n*x.h*x.w+p)*x.c+c]
				i++
			}
		}
	}
	return out
}

// tensor returns the pixels in the mount's layout.
func (o *oracle) tensor(x want) []byte {
	if o.o.nchw {
		return x.planes()
	}
	return x.pixels
}

// shape is the tensor's shape in that layout.
func (o *oracle) shape(x want) [4]int {
	if o.o.nchw {
		return [4]int{x.n, x.c, x.h, x.w}
	}
	return [4]int{x.n, x.h, x.w, x.c}
}

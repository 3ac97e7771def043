package integration

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

var (
	allModes  = []string{"none", "stretch", "not-larger", "not-smaller", "center-crop", "random-resized-crop"}
	allDTypes = []layout.DType{layout.Uint8, layout.Float16, layout.BFloat16, layout.Float32}
)

// A way is a setting of how a batch is made and transferred, which must not change a byte.
type way struct{ path, workers, depth string }

// ways returns all combinations available on this machine.
func ways() (all []way) {
	for _, path := range []string{"passthrough", "direct"} {
		if path == "passthrough" && !(os.Getuid() == 0 && capabilities().Passthrough) {
			continue
		}
		for _, workers := range []string{"1", "8"} {
			for _, depth := range []string{"1", "4"} {
				all = append(all, way{path, workers, depth})
			}
		}
	}
	return all
}

func (w way) flags() []string {
	return []string{"--read-path", w.path, "--workers", w.workers, "--prefetch-queue-depth", w.depth}
}

// TestPixels mounts every mode, color and flip probability, and every mode in every dtype;
// package engine's test covers their whole product. Batches of bytes are compared with the
// reference. Batches of other types are compared with the bytes, through the test's own
// conversion: with some mean and std, with those that have a name, and without, where an element
// is the byte's value.
func TestPixels(t *testing.T) {
	skipWithoutFUSE(t)
	a := smallAlbum(t)
	for i, mode := range allModes {
		for k := range 4 {
			gray, flip := k&1 != 0, 0.5*float64(k/2)
			l := look{mode: mode, flip: flip, settings: settings{
				batch: 5, shards: 2, shuffle: k > 1, seed: uint64(10*i + k), gray: gray, fill: uint8(37 * (i + k)), ignore: i == k, nchw: (i+k)%2 == 0,
			}}
			if l.height, l.width = albumHeight, albumWidth; mode == "none" {
				l.mode, l.height, l.width = "", 0, 0
			}
			dtypes := []layout.DType{layout.Uint8}
			if d := 1 + (i+k)%4; d < len(allDTypes) {
				dtypes = append(dtypes, allDTypes[d])
			}
			t.Run(l.String(), func(t *testing.T) {
				t.Parallel()
				a.dtypes(t, l, i+2*k, dtypes)
			})
		}
	}
}

// dtypes mounts an album once for every dtype, the first of which is uint8, each in another
// way.
func (a album) dtypes(t *testing.T, l look, turn int, dtypes []layout.DType) {
	ways := ways()
	o := newOracle(t, a.dir, l.settings)
	bytewise := map[[2]int][]byte{}
	for d, dtype := range dtypes {
		l := l
		l.dtype = dtype
		if dtype != layout.Uint8 {
			l.nchw = turn%2 == 0
			if n := turn % (len(normalizations) + 1); n < len(normalizations) { // else an element is the byte
				l.mean, l.std = normalizations[n].of(l.channels())
			}
		}
		convert, asked, more := l.convert(), l, ways[(turn+3*d)%len(ways)].flags()
		if turn%(len(normalizations)+1) == 0 && dtype != layout.Uint8 && !l.gray { // the first one has a name
			asked.mean, asked.std, more = nil, nil, append(more, "--normalize", "imagenet")
		}
		m := mountBatchfs(t, a.dir, asked.flags(more...)...)
		for shard := range l.shards {
			epoch := shard // covers two epochs
			for batch := range o.plan.Batches(shard, epoch) {
				b := m.show(t, l, shard, epoch, batch)
				a.documented(t, l, o, b)
				key := [2]int{shard, batch}
				if dtype == layout.Uint8 {
					a.near(t, l, o, b)
					bytewise[key] = b.nhwc
				} else if err := sameBytes(b.nhwc, convert(bytewise[key])); err != nil {
					t.Errorf("%s, shard %d, epoch %d, batch %d: %v", l, shard, epoch, batch, err)
				}
				if shard+batch == 0 {
					m.xattrs(t, b)
				}
			}
		}
		m.finish(t)
	}
}

// A normalization is a mean and a std for each channel.
type normalization struct{ mean, std [3]float64 }

var normalizations = []normalization{
	{[3]float64{0.485 * 255, 0.456 * 255, 0.406 * 255}, [3]float64{0.229 * 255, 0.224 * 255, 0.225 * 255}},
	{[3]float64{127.5, 0, -13.25}, [3]float64{127.5, 1, 0.001}},
	{[3]float64{4. / 3, 254.999, 128}, [3]float64{255, 3e4, 64}},
}

func (n normalization) of(channels int) (mean, std []float64) {
	return slices.Clone(n.mean[:channels]), slices.Clone(n.std[:channels])
}

// TestPixelsFromLargePictures: JPEGs decoded at reduced size, and in parts, in every
// orientation, look the same, apart from the difference between the decoder's own reduction
// and a filter. Filters of more than 128 pixels are as exact as small ones.
func TestPixelsFromLargePictures(t *testing.T) {
	skipWithoutFUSE(t)
	a := largeAlbum(t)
	for i, mode := range allModes[1:] {
		for k, gray := range []bool{false, true} {
			l := look{mode: mode, flip: 0.5, settings: settings{batch: 6, height: albumHeight, width: albumWidth, seed: uint64(i), gray: gray, nchw: k == 1}}
			t.Run(l.String(), func(t *testing.T) {
				t.Parallel()
				m, o := mountBatchfs(t, a.dir, l.flags()...), newOracle(t, a.dir, l.settings)
				for batch := range o.plan.Batches(0, i) {
					b := m.show(t, l, 0, i, batch)
					a.documented(t, l, o, b)
					a.near(t, l, o, b)
				}
			})
		}
	}
}

// TestPixelsPadded: margins and sizes when images keep their size.
func TestPixelsPadded(t *testing.T) {
	skipWithoutFUSE(t)
	a := smallAlbum(t)
	for _, l := range []look{
		{pad: 32, settings: settings{batch: 4, fill: 255}},
		{pad: 7, dtype: layout.Float16, mean: []float64{1, 2, 3}, std: []float64{4, 5, 6}, settings: settings{batch: 4, fill: 1, ignore: true, nchw: true}},
		{pad: 1, flip: 1, settings: settings{batch: 4, gray: true}},
		{flip: 1, dtype: layout.Float32, mean: []float64{9}, std: []float64{2}, settings: settings{batch: 3, height: 150, width: 160, gray: true, fill: 200}},
		{mode: "not-larger", flip: 1, dtype: layout.BFloat16, settings: settings{batch: 4, height: 50, width: 11, fill: 99}},
	} {
		t.Run(fmt.Sprintf("%s,pad=%d", l, l.pad), func(t *testing.T) {
			t.Parallel()
			bytewise := l
			bytewise.dtype, bytewise.mean, bytewise.std = layout.Uint8, nil, nil
			m, u, o := mountBatchfs(t, a.dir, l.flags()...), mountBatchfs(t, a.dir, bytewise.flags()...), newOracle(t, a.dir, l.settings)
			for batch := range o.plan.Batches(0, 0) {
				b := u.show(t, bytewise, 0, 0, batch)
				a.documented(t, bytewise, o, b)
				a.near(t, bytewise, o, b)
				if err := sameBytes(m.show(t, l, 0, 0, batch).nhwc, l.convert()(b.nhwc)); err != nil {
					t.Errorf("batch %d: %v", batch, err)
				}
			}
		})
	}
}

package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/layout"
)

// hugePNG is 57 bytes that start like a gray PNG of the given size.
func hugePNG(h, w uint32) []byte {
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)
	file := []byte("\x89PNG\r\n\x1a\n")
	for _, c := range []struct{ kind, data string }{{"IHDR", string(head) + "\x08\x00\x00\x00\x00"}, {"IDAT", ""}, {"IEND", ""}} {
		file = binary.BigEndian.AppendUint32(file, uint32(len(c.data)))
		body := []byte(c.kind + c.data)
		file = binary.BigEndian.AppendUint32(append(file, body...), crc32.ChecksumIEEE(body))
	}
	return file
}

const hugeSide = 67108864

// hugeDir holds two such PNGs, one tall and one wide: each slot of a batch of both has 2^52
// pixels. The sizes come from the files' headers, or from a manifest.
func hugeDir(t *testing.T, manifest bool) string {
	t.Helper()
	dir := t.TempDir()
	for name, size := range map[string][2]uint32{"tall.png": {hugeSide, 4}, "wide.png": {4, hugeSide}} {
		data := hugePNG(size[0], size[1])
		if len(data) != 57 {
			t.Fatalf("%d bytes", len(data))
		}
		writeFile(t, filepath.Join(dir, name), data)
	}
	if !manifest {
		return dir
	}
	path := filepath.Join(dir, "huge.csv")
	text := fmt.Sprintf("path,height,width\ntall.png,%d,4\nwide.png,4,%d\n", hugeSide, hugeSide)
	writeFile(t, path, []byte(text))
	return path
}

// TestBatchesThatCannotExist: two small files claim sizes whose product is 2^64 or more in
// a batch of 4096, and 2^53 in a batch of two, which exceeds any memory.
func TestBatchesThatCannotExist(t *testing.T) {
	for _, batch := range []struct {
		size int
		want error
	}{{4096, ErrTooBig}, {8192, ErrTooBig}, {2, ErrNoMemory}} {
		for _, manifest := range []bool{true, false} {
			for _, policy := range []catalog.OnError{Fail, Replace, Zero} {
				t.Run(fmt.Sprintf("%d, manifest %v, %v", batch.size, manifest, policy), func(t *testing.T) {
					e := start(t, hugeDir(t, manifest), func(o *Options) {
						o.BatchSize, o.OnError, o.Decoding.Color = batch.size, policy, 1
						o.CachePolicy, o.CacheSize, o.MemoryWait = cache.Constant, AutoCache, time.Hour // it fails at once
					})
					checkHuge(t, e, batch.want, manifest)
				})
			}
		}
	}
}

// checkHuge checks a batch in all of its forms. If the sizes came from the files
// themselves, the headers may have been rejected, and the batch is an ordinary one.
func checkHuge(t *testing.T, e *Engine, want error, certain bool) {
	t.Helper()
	k := Key{}
	spec := e.catalog.Spec(k)
	if certain && (spec.H != hugeSide || spec.W != hugeSide) {
		t.Fatalf("shape %v", spec.Shape())
	}
	for _, form := range layout.Forms() {
		size := e.catalog.Size(k, form)
		if form != layout.JSON && size <= 0 || form.Large() && (spec.Err() != nil) != (size == math.MaxInt64) {
			t.Errorf("%v: %d bytes", form, size)
		}
		if certain && form.Large() {
			fails(t, e, k, form, want)
		}
	}
	if certain {
		d, err := e.Describe(context.Background(), k)
		if e.catalog.Options.OnError == Fail && (err != nil || len(d.Samples) != spec.N) || e.catalog.Options.OnError != Fail && !errors.Is(err, want) {
			t.Errorf("%d samples of %d, %v", len(d.Samples), spec.N, err)
		}
	}
}

// TestExtremeSettings: no combination of shape and settings gives a negative or wrapped
// size.
func TestExtremeSettings(t *testing.T) {
	dir := testDir(t, 5)
	r := rand.New(rand.NewPCG(8, 8))
	for _, pad := range []int{0, 1, 3, 1 << 16, 1 << 24, 1 << 31, 1 << 40, math.MaxInt/2 + 1, math.MaxInt} {
		for _, batch := range []int{1, 4096, 1 << 16} { // at 1<<24 pixels a side, only the largest one overflows with every dtype
			for _, dtype := range []layout.DType{layout.Uint8, layout.Float32} {
				e := start(t, dir, func(o *Options) {
					o.PadMultiple, o.BatchSize, o.DType = pad, batch, dtype
					o.Hints = Hints{Batch: r.Int64() + 1}
				})
				spec := e.catalog.Spec(Key{})
				if spec.H < 3 || spec.W < 4 || pad > 1 && (spec.H%pad != 0 || spec.W%pad != 0) {
					t.Errorf("multiples of %d: %dx%d", pad, spec.H, spec.W)
				}
				for _, form := range layout.Forms() {
					if size := e.catalog.Size(Key{}, form); form != layout.JSON && size <= 0 {
						t.Errorf("multiples of %d, batches of %d: %v has %d bytes", pad, batch, form, size)
					}
				}
				e.Close()
			}
		}
	}
	for _, c := range []struct{ a, b, want int64 }{
		{0, math.MaxInt64, 0}, {1, 5, 5}, {3, math.MaxInt64 / 4, math.MaxInt64 / 2}, {math.MaxInt64, math.MaxInt64, math.MaxInt64 / 2},
		{2, math.MaxInt64 / 4, math.MaxInt64 / 4 * 2},
	} {
		if got := saturating(c.a, c.b); got != c.want {
			t.Errorf("%d*%d is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestRoomForBatches: a batch that takes all the room there is said to be fits: what never gives
// way is not counted as room.
func TestRoomForBatches(t *testing.T) {
	dirs, _ := pagedDatasets(t)
	images, masks := maskDirs(t, 64)
	for name, e := range map[string]*Engine{
		"a cache":          start(t, images, func(o *Options) { o.CachePolicy, o.CacheSize = cache.Static, 1<<20 }),
		"compressed pages": start(t, dirs["parquet"]),
		"masks":            startMasks(t, images, masks, 64, func(o *Options) { o.OnError = Zero }),
	} {
		e.memory.pool.Trim()
		if room := e.RoomForBatches(); e.memory.ledger.reserve(useBatches, room+1) || !e.memory.ledger.reserve(useBatches, room) {
			_, sum := e.memory.ledger.usage(useBatches)
			t.Errorf("%s: not %d bytes are left of %d, but %d", name, room, e.opts.MemoryLimit, e.opts.MemoryLimit-sum)
		} else {
			e.memory.ledger.release(useBatches, room)
		}
	}
}

// TestHeaderBeyondItsFile: a tiny file that claims many pixels is indexed as corrupt and
// does not determine the size of its batch.
func TestHeaderBeyondItsFile(t *testing.T) {
	dir := testDir(t, 3)
	chunk := func(kind string, data []byte) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
		b = append(append(b, kind...), data...)
		return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
	}
	header := binary.BigEndian.AppendUint32(nil, 16000)
	header = append(binary.BigEndian.AppendUint32(header, 16000), 8, 2, 0, 0, 0)
	for name, padding := range map[string]int{"a.png": 0, "b.png": 100_000} { // probed whole, and in part
		file := "\x89PNG\r\n\x1a\n" + string(chunk("IHDR", header)) + string(chunk("IDAT", make([]byte, padding))) + string(chunk("IEND", nil))
		writeFile(t, filepath.Join(filepath.Dir(samplePath(dir, 0)), name), []byte(file))
	}
	e := start(t, dir, func(o *Options) { o.BatchSize = 5 })
	bad := 0
	for i := range e.catalog.Dataset.Len() {
		if strings.HasSuffix(e.catalog.Dataset.Path(i), ".png") && strings.Contains(e.catalog.Dataset.Problem(i), "corrupt") {
			bad++
		}
	}
	if s := e.catalog.Spec(Key{}); bad != 2 || s.H > 1000 || s.W > 1000 {
		t.Errorf("%d bad; the batch is %dx%d", bad, s.H, s.W)
	}
}

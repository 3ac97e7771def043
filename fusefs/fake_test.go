package fusefs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// fakeSource is a source that decodes nothing: the content of a large form is derived from
// its name. It counts open files. The fields above reserved are set before its first use.
type fakeSource struct {
	shards, epochs, most int // most: batches of an epoch
	spec                 layout.Spec
	anonymous            bool // files have no descriptor
	gpu                  bool
	before               func(context.Context, engine.Key) error // called by Open

	reserved int64

	catalog func() *engine.Catalog
	mu      sync.Mutex
	opened  int
	live    int
	twice   bool // a file was closed twice
	begun   []engine.Key
}

func newFake() *fakeSource {
	s := &fakeSource{shards: 3, epochs: 4, most: 5, spec: layout.Spec{N: 2, H: 30, W: 50, C: 3}}
	s.catalog = sync.OnceValue(func() *engine.Catalog {
		color := decode.RGB
		if s.spec.C == 1 {
			color = decode.Gray
		}
		samples := s.shards * (s.most*s.spec.N - 1) // the last batch of an epoch has a padded slot
		c, err := catalog.New(fakeDataset(samples, s.spec.H, s.spec.W), catalog.Options{
			Config: shard.Config{Shards: s.shards, BatchSize: s.spec.N, PadLastBatch: true}, Epochs: s.epochs,
			Decoding: decode.Options{MaxPixels: 1 << 30, Color: color},
		})
		if err != nil {
			panic(err)
		}
		return c
	})
	return s
}

var (
	fakeDatasets sync.Map // results of fakeDataset, by its arguments
	fakeTime     = time.Unix(1_600_000_000, 123_456_789)
)

// fakeDataset is a dataset of n images of one size, in two classes. The images exist only in its
// manifest.
func fakeDataset(n, height, width int) *dataset.Dataset {
	arguments := [3]int{n, height, width}
	if known, ok := fakeDatasets.Load(arguments); ok {
		return known.(*dataset.Dataset)
	}
	ds, err := openFake(n, height, width)
	if err != nil {
		panic(err)
	}
	known, _ := fakeDatasets.LoadOrStore(arguments, ds)
	return known.(*dataset.Dataset)
}

func openFake(n, height, width int) (*dataset.Dataset, error) {
	dir, err := os.MkdirTemp("", "batchfs-fake-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	text := []byte("path,label,height,width,format\n")
	for i := range n {
		text = fmt.Appendf(text, "%d.png,%s,%d,%d,png\n", i, []string{"cat", "dog"}[i%2], height, width)
	}
	name := filepath.Join(dir, "fake.csv")
	if err := errors.Join(os.WriteFile(name, text, 0o600), os.Chtimes(name, fakeTime, fakeTime)); err != nil {
		return nil, err
	}
	return dataset.Open(context.Background(), name, dataset.Options{Workers: 1, Prober: sample.Probe})
}

func (s *fakeSource) Catalog() *engine.Catalog { return s.catalog() }

// Size is the size of a batch in one of its forms.
func (s *fakeSource) Size(k engine.Key, f layout.Form) int64 {
	if f == layout.JSON {
		return int64(len(s.content(k, f)))
	}
	return s.catalog().Size(k, f)
}

// content is the content of a batch's file.
func (s *fakeSource) content(k engine.Key, f layout.Form) []byte {
	if !f.Large() {
		text, err := RenderSmall(s.catalog(), s.catalog().Describe(k), f)
		if err != nil {
			panic(err)
		}
		return text
	}
	seed := [32]byte{byte(k.Shard), byte(k.Epoch), byte(k.Batch), byte(k.Batch >> 8), byte(f)}
	data := make([]byte, s.Size(k, f))
	_, _ = rand.NewChaCha8(seed).Read(data)
	return data
}

// Begin reports batch 0 of each epoch as made.
func (s *fakeSource) Begin(k engine.Key, _ layout.Form) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = append(s.begun, k)
	return k.Batch == 0
}

func (s *fakeSource) ShardsHere() (from, to int) { return 0, s.shards }

func (s *fakeSource) HasGPU() bool { return s.gpu }

func (s *fakeSource) Remedy(err error) string {
	return map[bool]string{false: "make room"}[errors.Is(err, engine.ErrBad)]
}

func (s *fakeSource) Describe(ctx context.Context, k engine.Key) (catalog.Description, error) {
	return s.catalog().Describe(k), ctx.Err()
}

func (s *fakeSource) Open(ctx context.Context, k engine.Key, f layout.Form) (file, error) {
	s.mu.Lock()
	s.opened++
	s.mu.Unlock()
	if s.before != nil {
		if err := s.before(ctx, k); err != nil {
			return nil, err
		}
	}
	opened := &fakeFile{source: s, fd: -1, data: s.content(k, f)}
	if !s.anonymous {
		if err := opened.back(); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	s.live++
	s.mu.Unlock()
	return opened, nil
}

func (s *fakeSource) counts() (opened, live int, twice bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened, s.live, s.twice
}

func (s *fakeSource) Errors() []engine.BadSample { return nil }
func (s *fakeSource) Stats() engine.Stats        { return engine.Stats{Uptime: 1.5} }
func (s *fakeSource) Usage() (total, free, used int64) {
	return 1 << 30, 3 << 28, 1 << 28
}

func (s *fakeSource) Reserve(bytes int64) { s.reserved += bytes }

func (s *fakeSource) ProbeFile() (int, func(), error) {
	if s.anonymous {
		return -1, nil, fmt.Errorf("anonymous memory")
	}
	fd, err := unix.MemfdCreate("probe", unix.MFD_CLOEXEC)
	return fd, func() { unix.Close(fd) }, err
}

type fakeFile struct {
	source *fakeSource
	fd     int
	data   []byte
	closed bool
}

// back writes the data to a file that the kernel can serve.
func (f *fakeFile) back() error {
	fd, err := unix.MemfdCreate("batch", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	f.fd = fd
	for off := 0; off < len(f.data); {
		n, err := unix.Pwrite(fd, f.data[off:], int64(off))
		if err != nil {
			return err
		}
		off += n
	}
	return nil
}

func (f *fakeFile) Bytes() []byte { return f.data }
func (f *fakeFile) Fd() int       { return f.fd }

func (f *fakeFile) Close() {
	f.source.mu.Lock()
	defer f.source.mu.Unlock()
	if f.closed {
		f.source.twice = true
		return
	}
	f.closed = true
	f.source.live--
	clear(f.data) // exposes reads after the close
	f.data = bytes.Repeat([]byte{0xdd}, 1)
	if f.fd >= 0 {
		unix.Close(f.fd)
	}
}

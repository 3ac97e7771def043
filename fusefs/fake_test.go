package fusefs

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/layout"
)

// fakeSource is a source without a dataset: a batch's content is derived from its name. It
// counts open files.
type fakeSource struct {
	shards, epochs, most int
	count                func(shard, epoch int) int // nil: most
	spec                 layout.Spec
	classes              []byte
	anonymous            bool                                    // files have no descriptor
	oddFd                bool                                    // the kernel refuses the descriptors
	before               func(context.Context, engine.Key) error // called by Open

	reserved int64

	mu     sync.Mutex
	opened int
	live   int
	twice  bool // a file was closed twice
}

func newFake() *fakeSource {
	return &fakeSource{shards: 3, epochs: 4, most: 5, spec: layout.Spec{N: 2, H: 30, W: 50, C: 3}, classes: []byte("cat\ndog\n")}
}

func (s *fakeSource) Shards() int     { return s.shards }
func (s *fakeSource) Epochs() int     { return s.epochs }
func (s *fakeSource) MaxBatches() int { return s.most }
func (s *fakeSource) Batches(shard, epoch int) int {
	if s.count == nil {
		return s.most
	}
	return s.count(shard, epoch)
}

func (s *fakeSource) Size(k engine.Key, f layout.Form) int64 {
	if f == layout.JSON {
		return 700
	}
	return layout.Size(f, s.spec)
}

func (s *fakeSource) Spec(engine.Key) layout.Spec { return s.spec }
func (s *fakeSource) Valid(k engine.Key) int      { return s.spec.N - k.Batch%2 }

// content is the content of a batch's file.
func (s *fakeSource) content(k engine.Key, f layout.Form) []byte {
	seed := [32]byte{byte(k.Shard), byte(k.Epoch), byte(k.Batch), byte(k.Batch >> 8), byte(f)}
	data := make([]byte, s.Size(k, f))
	_, _ = rand.NewChaCha8(seed).Read(data)
	return data
}

func (s *fakeSource) Small(ctx context.Context, k engine.Key, f layout.Form) ([]byte, error) {
	return s.content(k, f), ctx.Err()
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
	switch {
	case s.oddFd:
		fd, err := unix.Open("/dev/zero", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		opened.fd = fd
	case !s.anonymous:
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

func (s *fakeSource) DatasetJSON() []byte { return []byte(`{"samples":1}` + "\n") }
func (s *fakeSource) ClassesTxt() []byte  { return s.classes }
func (s *fakeSource) EpochJSON(shard, epoch int) []byte {
	return fmt.Appendf(nil, `{"shard":%d,"epoch":%d}`+"\n", shard, epoch)
}
func (s *fakeSource) Errors() []byte      { return nil }
func (s *fakeSource) MemoryJSON() []byte  { return []byte(`{"buffers":[]}` + "\n") }
func (s *fakeSource) Stats() engine.Stats { return engine.Stats{Uptime: 1.5} }
func (s *fakeSource) ModTime() time.Time  { return time.Unix(1_600_000_000, 123_456_789) }
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

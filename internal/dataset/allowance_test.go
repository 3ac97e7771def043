package dataset

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/testkit"
)

// TestAllowance: goroutines together hold at most the allowance plus what one of them needs, and
// each gets its turn.
func TestAllowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, most = 100, 70
		a := newAllowance(all)
		var mu sync.Mutex
		held, peak := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			held += n
			peak = max(peak, held)
		}
		var group sync.WaitGroup
		for k := range 50 {
			random := rand.New(rand.NewPCG(1, uint64(k)))
			group.Go(func() {
				for range 20 {
					h, sum := a.holding(t.Context()), 0
					for range 3 { // in steps, each of which may wait while it holds memory
						n := random.IntN(most)
						if err := h.take(int64(n)); err != nil {
							t.Error(err)
						}
						count(n)
						sum += n
						runtime.Gosched()
					}
					count(-sum)
					h.release()
				}
			})
		}
		group.Wait()
		if peak <= all/2 || peak > all+3*most || a.left != all || a.beyond != nil {
			t.Errorf("peak %d, left %d, beyond %v", peak, a.left, a.beyond)
		}
	})
}

// TestAllowanceIsInterrupted: a goroutine that waits gives up with the context.
func TestAllowanceIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAllowance(10)
		ctx, cancel := context.WithCancel(t.Context())
		greedy, h := a.holding(t.Context()), a.holding(ctx)
		testkit.Must(t, greedy.take(1000))
		result := make(chan error, 1)
		go func() { result <- h.take(1) }()
		synctest.Wait()
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) || h.n != 0 {
			t.Errorf("%v with %d", err, h.n)
		}
		greedy.release()
		if a.left != 10 {
			t.Errorf("%d left", a.left)
		}
	})
}

// gatedStore has one object under many names. It answers requests when the gate lets them through.
type gatedStore struct {
	store.Store
	object string
	gate   chan struct{}
	mu     sync.Mutex
	now    int64 // bytes requested
}

func (s *gatedStore) ReadAt(_ context.Context, _ store.Object, p []byte, offset int64) (int, error) {
	s.add(len(p))
	defer s.add(-len(p))
	<-s.gate
	return copy(p, s.object[offset:]), nil
}

func (s *gatedStore) Stat(context.Context, string) (store.Object, error) {
	return store.Object{}, store.ErrNotExist
}

func (s *gatedStore) add(n int) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += int64(n)
	return s.now
}

// TestSearchIsBounded: however many archives and workers there are, no more blocks are in memory
// than allowed.
func TestSearchIsBounded(t *testing.T) {
	const memory, block, objects = 12 << 20, 1 << 20, 40
	var b strings.Builder
	w := tar.NewWriter(&b)
	for _, file := range [][2]string{{"1.cls", "1"}, {"1.jpg", image("jpeg", 10, 20, 1) + strings.Repeat("x", block)}} {
		err := w.WriteHeader(&tar.Header{Name: file[0], Size: int64(len(file[1])), Mode: 0o644})
		if err == nil {
			_, err = w.Write([]byte(file[1]))
		}
		testkit.Must(t, err)
	}
	w.Close()
	synctest.Test(t, func(t *testing.T) {
		s := &gatedStore{object: b.String(), gate: make(chan struct{})}
		p := &opening{Options: Options{Workers: 64, Memory: memory, Prober: new(counter).probe}, ctx: t.Context(), src: &source{remote: s},
			storage: &storage{src: &source{remote: s}}, memory: newAllowance(memory), journal: &journal{files: &factFiles{}}}
		var all []object
		for k := range objects {
			all = append(all, object{name: fmt.Sprintf("%02d.tar", k), id: Identity{Size: int64(len(s.object)), ModTime: 1}})
		}
		x, done, peak := &index{table: newTable(0, 0)}, false, int64(0)
		go func() {
			if err := p.addArchives(x, all, &earlierFacts{}); err != nil {
				t.Error(err)
			}
			done = true
		}()
		for synctest.Wait(); !done; synctest.Wait() {
			peak = max(peak, s.add(0))
			s.gate <- struct{}{}
		}
		if x.table.rows() != objects || p.report.Scanned != objects {
			t.Errorf("%d samples, %d headers", x.table.rows(), p.report.Scanned)
		}
		if peak != memory+block { // one worker may exceed the limit
			t.Errorf("%d bytes were asked for at a time, instead of %d", peak, memory+block)
		}
	})
}

// rowImage is a row of a Parquet file of images.
type rowImage struct {
	Image []byte `parquet:"image"`
	Label int64  `parquet:"label"`
}

// writePages writes a Parquet file with all rows in one page, because the writer's buffer holds
// them all.
func (p *place) writePages(name string, codec compress.Codec, rows []rowImage) {
	p.t.Helper()
	f, err := os.Create(p.path(name))
	testkit.Must(p.t, err)
	size := 4 << 10
	for _, row := range rows {
		size += 2 * len(row.Image)
	}
	w := parquet.NewGenericWriter[rowImage](f, parquet.Compression(codec), parquet.PageBufferSize(size))
	_, err = w.Write(rows)
	testkit.Must(p.t, errors.Join(err, w.Close(), f.Close()))
}

// TestPagesAreReadOnce: the samples of a page that is larger than one usual read are scanned
// together.
func TestPagesAreReadOnce(t *testing.T) {
	p := newPlace(t)
	rows := make([]rowImage, 100)
	for i := range rows {
		rows[i] = rowImage{append([]byte(image("jpeg", 10+i, 20, 1)), noise(30<<10, uint64(i))...), int64(i)}
	}
	p.writePages("a.parquet", &parquet.Snappy, rows)
	info, err := os.Stat(p.path("a.parquet"))
	testkit.Must(t, err)
	reads, how := p.serveNoting()
	d := p.open("s3://data/a.parquet", how, func(o *Options) { o.Memory = 12 << 20 })
	for i := range rows {
		if h, _ := d.Size(i, false); h != 10+i {
			t.Fatalf("sample %d has height %d", i, h)
		}
	}
	const times = 2 // to search it, in blocks, and to read the headers
	if n := reads.bytes.Load(); n > times*info.Size()+3<<20 || info.Size() < 2<<20 {
		t.Errorf("%d bytes were asked for, of a file of %d", n, info.Size())
	}
}

// TestUnpackingIsCharged: unpacking a sample uses only the caller's memory. If that does not
// suffice, the error says so.
func TestUnpackingIsCharged(t *testing.T) {
	const page = 1 << 20
	p := newPlace(t)
	rows := make([]rowImage, 20)
	for i := range rows {
		rows[i] = rowImage{append([]byte(image("jpeg", 10, 20, 1)), make([]byte, page/len(rows))...), 1}
	}
	memory := make([]byte, 2*page)
	for name, codec := range map[string]compress.Codec{"snappy": &parquet.Snappy, "gzip": &parquet.Gzip, "zstd": &parquet.Zstd} {
		p.writePages(name+".parquet", codec, rows)
		d := p.open(name + ".parquet")
		asked := 0
		load := func(limit int) error {
			data, _, _, err := d.LoadPart(context.Background(), 3, 0, nil, func(n int) []byte {
				if asked = n; n > limit {
					return nil
				}
				return memory[:n]
			}, nil, 0)
			if err == nil && !bytes.Equal(data, rows[3].Image) {
				err = errors.New("it is another image")
			}
			return err
		}
		if err := load(page); !errors.Is(err, errTooLarge) {
			t.Errorf("%s, without room: %v", name, err)
		}
		if err := load(len(memory)); err != nil { // from now on, the worker has its decoder
			t.Errorf("%s: %v", name, err)
		}
		var err error
		n := testkit.Allocated(func() { err = load(len(memory)) })
		if err != nil || asked < page || n > page/10 {
			t.Errorf("%s: %d bytes were asked for, and %d more allocated: %v", name, asked, n, err)
		}
	}
}

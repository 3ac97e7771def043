package dataset

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/pages"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/testkit"
)

// writePage writes images into one compressed page, each with random incompressible bytes.
func (p *place) writePage(images, random int) {
	p.t.Helper()
	type row struct {
		Image struct {
			Bytes []byte `parquet:"bytes,plain,zstd"`
			Path  string `parquet:"path,plain,zstd"`
		} `parquet:"image"`
	}
	rows := make([]row, images)
	for i := range rows {
		rows[i].Image.Bytes, rows[i].Image.Path = append([]byte(image("jpeg", 10, 20+i, 1)), noise(random, uint64(i))...), fmt.Sprintf("%02d.jpg", i)
	}
	testkit.Must(p.t, parquet.WriteFile(p.path("pages.parquet"), rows))
}

// keepPages makes a dataset keep its pages, and checks at the end of the test that all are
// released.
func keepPages(t *testing.T, d *Dataset) {
	t.Helper()
	var budget account
	budget.left.Store(64 << 20)
	c, err := pages.New(pages.Options{Limit: 64 << 20, Pages: 1, Budget: &budget})
	testkit.Must(t, err)
	d.KeepPages(c)
	t.Cleanup(func() {
		if c.Close(); budget.left.Load() != 64<<20 {
			t.Errorf("%d bytes are charged at the end", 64<<20-budget.left.Load())
		}
	})
}

// paged opens a dataset of images in one compressed page in a store. It counts reads of the store.
// answer may answer a read itself, and then returns true.
func paged(t *testing.T, images int, answer func(w http.ResponseWriter) bool) (d *Dataset, want []string, reads *reads) {
	t.Helper()
	p := newPlace(t)
	p.writePage(images, 0)
	reads, how := p.serveNoting()
	d = p.open("s3://data/pages.parquet", how)
	want = contentsOf(t, d)
	keepPages(t, d)
	reads.count.Store(0)
	reads.until(0, answer)
	return d, want, reads
}

// joined waits until n readers use a page that is in the cache or being loaded.
func (d *Dataset) joined(n int) {
	for d.pages.Load().Stats().Served != int64(n) {
		runtime.Gosched()
	}
}

// account is a budget with a limit.
type account struct{ left atomic.Int64 }

func (a *account) Reserve(n int64) bool {
	if a.left.Add(-n) < 0 {
		a.left.Add(n)
		return false
	}
	return true
}

func (a *account) Release(n int64) { a.left.Add(n) }

// one is a sample's entry in contentsOf.
func (d *Dataset) one(ctx context.Context, i int) (string, error) {
	data, _, _, err := d.LoadPart(ctx, i, 0, nil, grow, nil, 0)
	return d.Path(i) + "\n" + d.Format(i) + "\n" + string(data), err
}

// TestAPageIsIndexedAtOnce: indexing a page on this machine takes the same number of reads for few
// images as for many.
func TestAPageIsIndexedAtOnce(t *testing.T) {
	reads := map[int]int64{}
	for _, images := range []int{2, 40} {
		p, n := newPlace(t), new(atomic.Int64)
		p.writePage(images, 0)
		o := p.options()
		o.Storage.system = &faultySystem{read: func(fd int, b []byte, offset int64) (int, error) {
			n.Add(1)
			return kernel{}.pread(fd, b, offset)
		}}
		d, err := Open(t.Context(), p.path("pages.parquet"), o)
		testkit.Must(t, err)
		if d.Len() != images {
			t.Errorf("%d images, want %d", d.Len(), images)
		}
		d.Close()
		reads[images] = n.Load()
	}
	if reads[2] == 0 || reads[40] != reads[2] {
		t.Errorf("reads for so many images: %v", reads)
	}
}

// TestAPageIsFetchedOnce: the samples of a page cost one request, whether they are read at the same
// time or later. If the request fails, all readers that wait for it fail.
func TestAPageIsFetchedOnce(t *testing.T) {
	for _, fails := range []bool{false, true} {
		const images = 8
		gate := make(chan struct{})
		d, want, reads := paged(t, images, func(w http.ResponseWriter) bool {
			<-gate
			if fails {
				w.WriteHeader(http.StatusForbidden)
			}
			return fails
		})
		var wait sync.WaitGroup
		for i := range images {
			wait.Go(func() {
				if got, err := d.one(context.Background(), i); (err != nil) != fails || !fails && got != want[i] {
					t.Errorf("failing: %t, sample %d: %q, %v", fails, i, got, err)
				}
			})
		}
		d.joined(images - 1)
		close(gate)
		wait.Wait()
		if n := reads.count.Load(); n != 1 {
			t.Errorf("failing: %t: the page was asked for %d times", fails, n)
		}
		again := map[bool]int64{true: 2, false: 1}[fails]
		if got, err := d.one(context.Background(), 0); (err != nil) != fails || !fails && got != want[0] || reads.count.Load() != again {
			t.Errorf("failing: %t: later: %q, %v, %d reads", fails, got, err, reads.count.Load())
		}
	}
}

// TestAStoppedReaderStopsNobody: if the reader that requests a page is stopped, another one
// requests it.
func TestAStoppedReaderStopsNobody(t *testing.T) {
	asked, gate := make(chan struct{}, 9), make(chan struct{})
	d, want, reads := paged(t, 3, func(http.ResponseWriter) bool {
		asked <- struct{}{}
		<-gate
		return false
	})
	var ctx [2]context.Context
	var stop [2]context.CancelFunc
	for i := range ctx {
		ctx[i], stop[i] = context.WithCancel(t.Context())
	}
	var wait sync.WaitGroup
	stopped := func(i int) {
		wait.Go(func() {
			if _, err := d.one(ctx[i], i); !errors.Is(err, ErrStopped) {
				t.Errorf("sample %d: %v", i, err)
			}
		})
		d.joined(i)
	}
	stopped(0)
	<-asked
	stopped(1)
	wait.Go(func() {
		if got, err := d.one(context.Background(), 2); err != nil || got != want[2] {
			t.Errorf("%q, %v", got, err)
		}
	})
	d.joined(2)
	stop[1]()
	stop[0]()
	<-asked
	close(gate)
	wait.Wait()
	if n := reads.count.Load(); n != 2 {
		t.Errorf("the page was asked for %d times", n)
	}
}

// brokenStore panics once.
type brokenStore struct {
	store.Store
	asked, gate chan struct{}
	once        sync.Once
}

func (s *brokenStore) ReadAt(ctx context.Context, o store.Object, p []byte, offset int64) (int, error) {
	s.once.Do(func() {
		close(s.asked)
		<-s.gate
		panic("a bug")
	})
	return s.Store.ReadAt(ctx, o, p, offset)
}

// TestAPanicStopsNobody: if the reader that requests a page panics, another one requests it.
func TestAPanicStopsNobody(t *testing.T) {
	d, want, _ := paged(t, 2, func(http.ResponseWriter) bool { return false })
	broken := &brokenStore{Store: d.remote, asked: make(chan struct{}), gate: make(chan struct{})}
	d.remote = broken
	panicked := make(chan any)
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = d.one(context.Background(), 0)
	}()
	<-broken.asked
	var wait sync.WaitGroup
	wait.Go(func() {
		if got, err := d.one(context.Background(), 1); err != nil || got != want[1] {
			t.Errorf("%q, %v", got, err)
		}
	})
	d.joined(1)
	close(broken.gate)
	if <-panicked == nil {
		t.Error("there was no panic")
	}
	wait.Wait()
}

// TestPagesAreOfTheIndexedFile: a kept page does not hide that its file has changed or is gone.
func TestPagesAreOfTheIndexedFile(t *testing.T) {
	p := newPlace(t)
	p.writePage(3, 0)
	p.settle()
	d := p.open("pages.parquet")
	want := contentsOf(t, d)
	keepPages(t, d)
	for i := range 2 {
		if got, err := d.one(t.Context(), i); err != nil || got != want[i] {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if s := d.pages.Load().Stats(); s.Loaded != 1 || s.Served != 1 {
		t.Errorf("%+v", s)
	}
	testkit.Must(t, os.Chtimes(p.path("pages.parquet"), settled.Add(time.Second), settled.Add(time.Second)))
	if got, err := d.one(t.Context(), 1); !errors.Is(err, ErrChanged) {
		t.Errorf("%q, %v", got, err)
	}
	testkit.Must(t, os.Remove(p.path("pages.parquet")))
	if got, err := d.one(t.Context(), 1); !errors.Is(err, ErrMissing) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestRowsOfAPage: any row of a page leads to all of its rows, however many there are.
func TestRowsOfAPage(t *testing.T) {
	var table table
	var want [][2]int
	for page, rows := range []int{1, 2, 3, 4, 5, 7, 8, 9, 100, 1, 33} {
		first := len(table.members)
		for range rows {
			m := member{object: int32(page / 3)}
			m.Offset, m.Length, m.Block, m.Coding = int64(page)*10, 10, 100, archive.Zstd
			table.members = append(table.members, m)
			want = append(want, [2]int{first, first + rows})
		}
	}
	table.members[len(want)-1].Coding = archive.Plain
	want[len(want)-1] = [2]int{len(want) - 1, len(want)}
	for i := range want[:len(want)-33] {
		if first, end := table.page(i); first != want[i][0] || end != want[i][1] {
			t.Errorf("row %d: from %d to %d, not %d", i, first, end, want[i])
		}
	}
	if first, end := table.page(len(want) - 1); end-first != 1 {
		t.Errorf("what is not packed is in a page of %d", end-first)
	}
}

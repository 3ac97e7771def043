package engine

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// Photos are 8 MB of pixels that do not get smaller, in several files of several compressed pages
// each.
const (
	photos     = 240
	photoSide  = 105
	photoFiles = 6
	photosADay = photos / photoFiles
)

func photo(i int) []byte {
	return append(fmt.Appendf(nil, "P6\n%d %d\n255\n", photoSide, photoSide), picture(i, photoSide, photoSide)...)
}

// pagedDatasets are directories with the same photos, by the format in which they are stored, and
// how many bytes they take.
func pagedDatasets(t *testing.T) (dirs map[string]string, stored map[string]int64) {
	t.Helper()
	dirs, stored = map[string]string{}, map[string]int64{}
	for kind, write := range map[string]func(path string, first int) error{"parquet": writePages, "mds": writeBlock} {
		dirs[kind] = t.TempDir()
		for f := range photoFiles {
			path := filepath.Join(dirs[kind], fmt.Sprintf("part-%d.%s", f, map[string]string{"parquet": "parquet", "mds": "mds.zstd"}[kind]))
			testkit.Must(t, write(path, f*photosADay))
			info, err := os.Stat(path)
			testkit.Must(t, err)
			stored[kind] += info.Size()
		}
	}
	return dirs, stored
}

// writePages writes the photos of a file of Parquet: two row groups, of two pages of ten photos
// each.
func writePages(path string, first int) error {
	type row struct {
		Image struct {
			Bytes []byte `parquet:"bytes,plain,zstd"`
			Path  string `parquet:"path,plain,zstd"`
		} `parquet:"image"`
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := parquet.NewGenericWriter[row](f, parquet.PageBufferSize(10*len(photo(0))), parquet.MaxRowsPerRowGroup(photosADay/2))
	for i := range photosADay {
		var r row
		r.Image.Bytes, r.Image.Path = photo(first+i), fmt.Sprintf("%03d.ppm", first+i)
		if _, err := w.Write([]row{r}); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}

// writeBlock writes the photos of an MDS shard, which is compressed as a whole.
func writeBlock(path string, first int) error {
	head := []byte(`{"column_encodings": ["bytes"], "column_names": ["image"], "column_sizes": [null]}`)
	u32 := binary.LittleEndian.AppendUint32
	at := 4*(photosADay+2) + len(head)
	block, body := u32(nil, photosADay), []byte(nil)
	for i := range photosADay {
		block = u32(block, uint32(at+len(body)))
		body = append(u32(body, uint32(len(photo(first+i)))), photo(first+i)...)
	}
	block = append(append(u32(block, uint32(at+len(body))), head...), body...)
	z, err := zstd.NewWriter(nil)
	if err != nil {
		return err
	}
	return os.WriteFile(path, z.EncodeAll(block, nil), 0o644)
}

// plainPhotos is a directory with the photos as single files.
func plainPhotos(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for i := range photos {
		writeFile(t, filepath.Join(dir, fmt.Sprintf("%03d.ppm", i)), photo(i))
	}
	return dir
}

// epochOf reads an epoch of all shards at once, in order, and returns the batches.
func epochOf(t *testing.T, e *Engine, epoch int) map[Key][]byte {
	t.Helper()
	var mu sync.Mutex
	all := map[Key][]byte{}
	var wait sync.WaitGroup
	for s := range e.catalog.Options.Shards {
		wait.Go(func() {
			for b := range e.catalog.Plan.Batches(s, epoch) {
				k := Key{Shard: s, Epoch: epoch, Batch: b}
				f, err := e.Open(t.Context(), k, layout.NHWCForm)
				if err != nil {
					t.Errorf("%s: %v", k, err)
					return
				}
				data := bytes.Clone(f.Bytes())
				f.Close()
				mu.Lock()
				all[k] = data
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return all
}

func sameBatches(t *testing.T, got, want map[Key][]byte) {
	t.Helper()
	for k := range want {
		if !bytes.Equal(got[k], want[k]) {
			t.Errorf("%s is not the same", k)
		}
	}
	if len(got) != len(want) || len(want) == 0 {
		t.Errorf("%d batches, not %d", len(got), len(want))
	}
}

// nothingLeft closes an engine, and checks the account of its pages.
func nothingLeft(t *testing.T, e *Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if used, _ := e.memory.ledger.usage(usePages); used != 0 {
		t.Errorf("%d bytes of pages are charged at the end", used)
	}
	if s := e.caches.pages.Stats(); s.Pages != 0 || s.Reserved != 0 {
		t.Errorf("at the end: %+v", s)
	}
}

// TestPagesAreReadOnce: an epoch reads each compressed page once, in order, in windows, and in a
// full shuffle for which there is memory. The batches are the same as with single files.
func TestPagesAreReadOnce(t *testing.T) {
	plain := plainPhotos(t)
	dirs, stored := pagedDatasets(t)
	orders := map[string]func(*Options){
		"in order": func(*Options) {},
		"window":   func(o *Options) { o.Shuffle, o.Window, o.Blocks = true, 2, []int64{40, 40, 40, 40, 40, 40} },
		"shuffle":  func(o *Options) { o.Shuffle = true },
	}
	for name, order := range orders {
		settings := func(o *Options) {
			o.Shards, o.BatchSize, o.Workers, o.MemoryLimit = 2, 12, 4, 160<<20
			order(o)
		}
		want := epochOf(t, start(t, plain, settings), 0)
		for kind, dir := range dirs {
			for _, size := range []int64{0, AutoCache} {
				if testing.Short() && (size == 0) == (name == "shuffle") {
					continue // one size for each order
				}
				t.Run(fmt.Sprintf("%s/%s/cache %d", kind, name, size), func(t *testing.T) {
					e := start(t, dir, settings, func(o *Options) { o.CachePolicy, o.CacheSize = cache.Constant, size })
					sameBatches(t, epochOf(t, e, 0), want)
					epochOf(t, e, 1)
					s := e.Stats()
					t.Logf("%.3f of the files were read; %+v", float64(s.Epochs[0].StorageBytes)/float64(stored[kind]), *s.Storage.Pages)
					for _, epoch := range s.Epochs {
						if epoch.StorageBytes > stored[kind]*11/10 {
							t.Errorf("epoch %d: %d bytes were read of files of %d bytes", epoch.Epoch, epoch.StorageBytes, stored[kind])
						}
					}
					if r := e.Budget().Repeats(); r.Factor != 1 {
						t.Errorf("predicted: %+v", r)
					}
					if s.Memory.Peak > s.Memory.Limit {
						t.Errorf("%+v", s.Memory)
					}
					nothingLeft(t, e)
				})
			}
		}
	}
}

// TestPagesOfTwoEpochs: while a shard is read later than another one, for which a batch of the next
// epoch is made already, a page is kept until both epochs have read it.
func TestPagesOfTwoEpochs(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, writeBlock(filepath.Join(dir, "part.mds.zstd"), 0))
	order := func(o *Options) {
		o.Shards, o.BatchSize, o.PrefetchDepth = 2, 1, 1
		o.Shuffle, o.Window, o.Blocks = true, 1, []int64{photosADay}
	}
	sampleOf := func(e *Engine, k Key) int64 {
		slots, _ := e.catalog.Slots(k)
		return slots[0].ID
	}
	for seed := range uint64(1000) {
		e := built(t, dir, order, func(o *Options) { o.Seed = seed })
		last := e.catalog.Plan.Batches(1, 0) - 1
		if sampleOf(e, Key{Epoch: 1}) != sampleOf(e, Key{Shard: 1, Batch: last}) {
			continue // the last one that epoch 0 reads is not the first of epoch 1
		}
		e.start()
		for s := range 2 {
			for b := range last + 1 {
				read(t, e, Key{Shard: s, Batch: b}, layout.NHWCForm)
			}
			if err := e.Quiet(t.Context()); err != nil { // until the batch of epoch 1 is made
				t.Fatal(err)
			}
		}
		if s := e.Stats().Storage.Pages; s.Loaded != 1 {
			t.Errorf("%+v", *s)
		}
		nothingLeft(t, e)
		return
	}
	t.Error("there is no such order")
}

// TestPagesGiveWay: with hardly any memory for pages, and with none, the batches are the same, the
// limit holds and nothing waits forever. The mount predicts that pages are read again.
func TestPagesGiveWay(t *testing.T) {
	plain := plainPhotos(t)
	dirs, stored := pagedDatasets(t)
	limits := []int64{29, 36, 30, 32}
	if testing.Short() {
		limits = limits[:2]
	}
	for _, mib := range limits {
		settings := func(o *Options) {
			o.Shards, o.BatchSize, o.Workers, o.PrefetchDepth, o.MemoryLimit = 2, 6, 4, 1, mib<<20
			o.Shuffle = true
		}
		want := epochOf(t, start(t, plain, settings), 0)
		for kind, dir := range dirs {
			t.Run(fmt.Sprintf("%s/%d MiB", kind, mib), func(t *testing.T) {
				e := start(t, dir, settings)
				sameBatches(t, epochOf(t, e, 0), want)
				s := e.Stats()
				t.Logf("%.1f times the files were read, foretold: %+v; %+v, %+v", float64(s.Storage.Bytes)/float64(stored[kind]), e.Budget().Repeats(), s.Storage.Pages, s.Memory)
				if s.Memory.Peak > s.Memory.Limit {
					t.Errorf("%+v", s.Memory)
				}
				if r := e.Budget().Repeats(); r.Factor < 1.1 {
					t.Errorf("foretold: %+v", r)
				}
				if err := e.Quiet(t.Context()); err != nil { // batches being read ahead hold pages
					t.Fatal(err)
				}
				e.SetMemoryLimit(1 << 20)
				if used, _ := e.memory.ledger.usage(usePages); used > 1<<20 {
					t.Errorf("%d bytes of pages are left", used)
				}
				nothingLeft(t, e)
			})
		}
	}
}

// TestAWindowThatFits: if memory is too short for a full shuffle, the window that is proposed reads
// each page once.
func TestAWindowThatFits(t *testing.T) {
	dirs, stored := pagedDatasets(t)
	proposed, step := 0, int64(2)
	if testing.Short() {
		step = 6
	}
	for mib := int64(30); mib < 44; mib += step {
		settings := func(o *Options) {
			o.BatchSize, o.Workers, o.PrefetchDepth, o.MemoryLimit, o.Shuffle = 4, 2, 0, mib<<20, true
		}
		r := start(t, dirs["mds"], settings).Budget().Repeats()
		if r.Window == 0 || r.Factor == 1 {
			continue
		}
		proposed++
		e := start(t, dirs["mds"], settings, func(o *Options) { o.Window = r.Window })
		if r := e.Budget().Repeats(); r.Factor != 1 {
			t.Errorf("%d MiB: what was proposed does not fit: %+v", mib, r)
		}
		epochOf(t, e, 0)
		if read := e.Stats().Storage.Bytes; read > stored["mds"]*11/10 {
			t.Errorf("%d MiB, windows of %d: %d bytes were read of files of %d bytes", mib, r.Window, read, stored["mds"])
		}
	}
	if proposed == 0 {
		t.Error("no window was proposed")
	}
}

// TestDeflatedMembersAreKept: a compressed member with only one sample is kept for the next epoch
// if there is memory, also without a cache.
func TestDeflatedMembersAreKept(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "photos.zip"))
	testkit.Must(t, err)
	w := zip.NewWriter(f)
	for i := range photos {
		member, err := w.Create(fmt.Sprintf("%03d.ppm", i))
		if err == nil {
			_, err = member.Write(photo(i))
		}
		testkit.Must(t, err)
	}
	testkit.Must(t, errors.Join(w.Close(), f.Close()))
	settings := func(o *Options) { o.BatchSize, o.MemoryLimit, o.Shuffle = 12, 160<<20, true }
	plain := start(t, plainPhotos(t), settings)
	e := start(t, filepath.Join(dir, "photos.zip"), settings)
	for epoch := range 2 {
		sameBatches(t, epochOf(t, e, epoch), epochOf(t, plain, epoch))
	}
	s := e.Stats()
	t.Logf("%+v", *s.Storage.Pages)
	if s.Storage.Pages.Loaded > photos*11/10 || s.Epochs[1].StorageBytes > s.Epochs[0].StorageBytes/10 {
		t.Errorf("%+v, %+v", *s.Storage.Pages, s.Epochs)
	}
	nothingLeft(t, e)
}

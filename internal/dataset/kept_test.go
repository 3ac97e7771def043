package dataset

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/internal/tier"
)

// noise returns bytes that cannot be compressed.
func noise(n int, seed uint64) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	p := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(p) // never fails
	return p
}

func extents(t *testing.T, dir string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "*", "??", "*"))
	testkit.Must(t, err)
	return files
}

// TestLocalCacheOfSamples: if requested, a dataset that does not fit is kept sample by sample,
// whatever holds the samples. The rest comes from the store alone.
func TestLocalCacheOfSamples(t *testing.T) {
	p := newPlace(t)
	names := p.several()
	p.pack("one.tar", "", names...)
	p.writePage(20, 500)
	reads, how := p.serveNoting()
	for _, url := range []string{"s3://data/d", "s3://data/one.tar", "s3://data/pages.parquet"} {
		want := contentsOf(t, p.open(url, how)) // this also indexes it
		if p.open(url, how).LocalSamples() != nil {
			t.Errorf("%s: without a local cache, samples are kept", url)
		}
		dir := t.TempDir()
		cached := func(o *Options) { o.Storage.LocalCache = LocalCache{Dir: dir, Size: tier.Cost(1), Samples: true} }
		d := p.open(url, how, cached)
		if diff := cmp.Diff(want, contentsOf(t, d)); diff != "" || d.LocalSamples() == nil {
			t.Errorf("%s, keeping samples: %t (-store +local cache):\n%s", url, d.LocalSamples() != nil, diff)
		}
		i := 0
		for d.Stat(i).Size > 4096 {
			i++
		}
		data, _, seen, err := d.LoadPart(context.Background(), i, 0, nil, grow, nil, 0)
		testkit.Must(t, err)
		data = bytes.Clone(data)
		if d.Settle(); d.LocalCache().Kept > 0 {
			t.Errorf("%s: %+v without Keep", url, *d.LocalCache())
		}
		d.LocalSamples().Keep(i, Identity{Size: seen.Size, ModTime: seen.ModTime + 1}, data)
		if _, _, ok := d.LocalSamples().Load(context.Background(), i, grow); ok {
			t.Errorf("%s: another version was kept", url)
		}
		d.LocalSamples().Keep(i, seen, data)
		d.Settle()
		before := reads.count.Load()
		got, id, ok := d.LocalSamples().Load(context.Background(), i, grow)
		if !ok || !bytes.Equal(got, data) || id != seen || reads.count.Load() != before {
			t.Errorf("%s: %t, %d bytes of %d, %+v", url, ok, len(got), len(data), id)
		}
		if _, _, ok := d.LocalSamples().Load(context.Background(), i+1, grow); ok {
			t.Errorf("%s: a sample is taken for another", url)
		}
		if _, _, ok := d.LocalSamples().Load(context.Background(), i, func(int) []byte { return nil }); ok {
			t.Errorf("%s: a sample without memory for it", url)
		}
		if d.LocalSamples().Drop(i); d.LocalCache().Used != 0 {
			t.Errorf("%s: %+v after Drop", url, *d.LocalCache())
		}
	}
}

// TestLocalCacheOfSamplesThatAreThereTwice: identical samples are kept and dropped one by one,
// because the plan treats them as different samples.
func TestLocalCacheOfSamplesThatAreThereTwice(t *testing.T) {
	p := newPlace(t)
	names := p.several()
	p.pack("one.tar", "", names...)
	p.write("m.csv", "path\nd/b/1.jpg\nd/a/9.jpg\nd/b/1.jpg\nd/b/1.jpg\nd/c/1.jpg\nd/a/x.bmp\n")
	p.write("same.txt", "s3://data/d\ns3://data/d\n")
	p.write("part.txt", "s3://data/d\ns3://data/d/b/\n")
	p.write("tar.txt", "s3://data/one.tar\ns3://data/one.tar\n")
	_, how := p.serve()
	for name, pairs := range map[string]int{"s3://data/m.csv": 3, p.path("same.txt"): 7, p.path("part.txt"): 2, p.path("tar.txt"): 7} {
		d := p.open(name, how, func(o *Options) {
			o.Storage.LocalCache = LocalCache{Dir: t.TempDir(), Size: 2 * tier.Cost(60_000), Samples: true}
		})
		if d.LocalSamples() == nil {
			t.Fatalf("%s: everything fits", name)
		}
		there := func(i int) bool {
			_, _, ok := d.LocalSamples().Load(context.Background(), i, grow)
			return ok
		}
		for i := range d.Len() {
			data, _, seen, err := d.LoadPart(context.Background(), i, 0, nil, grow, nil, 0)
			testkit.Must(t, err)
			for k := range i {
				if other, err := d.Read(k, nil, grow); err != nil || !bytes.Equal(data, other) {
					continue
				}
				pairs--
				d.LocalSamples().Keep(i, seen, data)
				if d.Settle(); there(k) {
					t.Errorf("%s: sample %d is kept instead of %d", name, k, i)
				}
				d.LocalSamples().Keep(k, seen, data)
				d.Settle()
				if d.LocalSamples().Drop(i); there(i) || !there(k) {
					t.Errorf("%s: after %d was dropped, it is there: %t, and %d: %t", name, i, there(i), k, there(k))
				}
				d.LocalSamples().Drop(k)
			}
		}
		if pairs != 0 {
			t.Errorf("%s: %d pairs are missing", name, pairs)
		}
	}
}

// TestLocalCacheOfAnotherForm: beside the files, samples are kept as others make them of these, and
// neither is taken for the other.
func TestLocalCacheOfAnotherForm(t *testing.T) {
	p := newPlace(t)
	p.several()
	_, how := p.serve()
	d := p.open("s3://data/d", how, func(o *Options) {
		o.Storage.LocalCache = LocalCache{Dir: t.TempDir(), Size: 16 << 20, Samples: true}
	})
	k, other := d.KeptPacked("one"), d.KeptPacked("two")
	if d.LocalSamples() != nil || k == nil || k.Spare <= 0 {
		t.Fatalf("%+v, %+v", d.LocalSamples(), k)
	}
	file, err := d.Read(0, nil, grow)
	testkit.Must(t, err)
	there := func(k *LocalSamples, i int) string {
		data, _, id, ok := k.LoadPart(t.Context(), i, 0, grow, nil)
		if ok && id != d.Stat(i) {
			t.Errorf("sample %d is said to be of %+v", i, id)
		}
		return string(data)
	}
	k.Keep(0, Identity{Size: d.Stat(0).Size, ModTime: 1}, []byte("of another version"))
	d.Settle()
	equal(t, "", there(k, 0), "another version")
	k.Keep(0, d.Stat(0), []byte("packed"))
	d.Settle()
	again, err := d.Read(0, nil, grow)
	equal(t, []string{"packed", "", "", string(file)}, []string{there(k, 0), there(k, 1), there(other, 0), string(again)}, "%v", err)
	other.Drop(0)
	equal(t, "packed", there(k, 0), "another form was dropped")
	k.Drop(0)
	equal(t, "", there(k, 0), "dropped")
}

// TestLocalCacheBesideFiles: what is on this machine anyway takes no room in the local cache, and
// what is named twice takes it once, if everything fits.
func TestLocalCacheBesideFiles(t *testing.T) {
	p := newPlace(t)
	names := p.several()
	p.pack("one.tar", "", names...)
	p.write("list.txt", "d\none.tar\ns3://data/d\ns3://data/one.tar\ns3://data/d\ns3://data/d/b/\n")
	_, how := p.serve()
	room := int64(0)
	for _, name := range []string{"s3://data/d", "s3://data/one.tar"} {
		d := p.open(name, how)
		if d.Packed {
			room += tier.Cost(d.table.objects[0].id.Size)
			continue
		}
		for i := range d.Len() {
			room += tier.Cost(d.Stat(i).Size)
		}
	}
	for _, fits := range []bool{true, false} {
		size := room
		if !fits {
			size--
		}
		d := p.open("list.txt", how, func(o *Options) {
			o.Storage.LocalCache = LocalCache{Dir: t.TempDir(), Size: size, Samples: true}
		})
		if (d.LocalSamples() != nil) == fits {
			t.Errorf("with %d of %d bytes, samples are kept: %t", size, room, fits)
		}
		for i := range d.Len() {
			if d.InStore(i) != (i >= 2*len(names)) {
				t.Errorf("sample %d of %d, in a store: %t", i, d.Len(), d.InStore(i))
			}
		}
	}
}

// TestLocalCacheOfRemovedObjects: what is cached of objects that left the dataset makes room for
// new ones.
func TestLocalCacheOfRemovedObjects(t *testing.T) {
	p := newPlace(t)
	p.images("d/1.jpg", "d/2.jpg")
	_, how := p.serve()
	dir := t.TempDir()
	for _, change := range []func(){func() {}, func() {
		p.images("d/3.jpg")
		testkit.Must(t, os.Remove(p.path("d/1.jpg")))
	}} {
		change()
		d := p.open("s3://data/d", how, func(o *Options) {
			o.Rescan, o.Storage.LocalCache = true, LocalCache{Dir: dir, Size: 2 * tier.Cost(4096)}
		})
		for range 2 { // the first time, the old object may go before the other is used
			contentsOf(t, d)
			d.Settle()
		}
		before := d.LocalCache().Misses
		if contentsOf(t, d); d.LocalCache().Misses != before {
			t.Errorf("not everything is there: %+v", *d.LocalCache())
		}
		d.Close()
		for _, f := range extents(t, dir) {
			long := time.Now().Add(-time.Hour)
			testkit.Must(t, os.Chtimes(f, long, long))
		}
	}
}

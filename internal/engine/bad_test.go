package engine

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// A spoilt is a file that is not an image for a while.
type spoilt struct {
	t    testing.TB
	path string
	good []byte
	when time.Time
}

// spoil damages a PPM; its size and time stay.
func spoil(t testing.TB, path string) *spoilt {
	t.Helper()
	good := contents(t, path)
	info, err := os.Stat(path)
	testkit.Must(t, err)
	s := &spoilt{t, path, good, info.ModTime()}
	bad := bytes.Clone(good)
	bad[1] = '9'
	s.write(bad)
	return s
}

// repair makes it whole again; its time changes.
func (s *spoilt) repair() {
	s.when = s.when.Add(time.Hour)
	s.write(s.good)
}

func (s *spoilt) write(data []byte) {
	if err := errors.Join(os.WriteFile(s.path, data, 0o644), os.Chtimes(s.path, s.when, s.when)); err != nil {
		s.t.Error(err)
	}
}

// TestTransientFailures: a file that occasionally cannot be opened is reported once. This
// neither hides other faults of the file nor lets a different file take its place.
func TestTransientFailures(t *testing.T) {
	const n = 8
	dir := testDir(t, n)
	e := start(t, dir, func(o *Options) { o.OnError = Zero })
	for range 3 {
		if err := e.bad.report(0, unix.EACCES, unknownIdentity); !errors.Is(err, ErrBad) {
			t.Error(err)
		}
		if err := e.bad.check(shard.Slot{}); err != nil {
			t.Errorf("it is not tried again: %v", err)
		}
	}
	if lines := e.bad.total(); lines != 1 {
		t.Errorf("%d lines about one file", lines)
	}
	e.bad.report(0, unix.EACCES, unknownIdentity)
	e.bad.report(0, decode.ErrCorrupt, e.catalog.Dataset.Stat(0))
	if lines := e.bad.total(); lines != 2 {
		t.Errorf("%d lines about a file with two faults", lines)
	}
	e.bad.report(1, dataset.ErrMissing, unknownIdentity)
	h, w := testSize(number(n, 1))
	writePPM(t, samplePath(dir, number(n, 1)), h, w, picture(99, h, w))
	for _, s := range samplesOf(t, e, Key{}) {
		if s.ID == 1 && s.Status != catalog.StatusZeroed {
			t.Errorf("the new file is shown: %+v", s)
		}
	}
}

// TestStandInsGoWithTheirCause: a kept or prefetched batch with a substitute for a bad
// sample is no longer served once the file has been repaired.
func TestStandInsGoWithTheirCause(t *testing.T) {
	const n = 24
	for _, policy := range []catalog.OnError{Replace, Zero} {
		dir := testDir(t, n)
		sample := spoil(t, samplePath(dir, number(n, 5))) // in batch 1
		e := start(t, dir, func(o *Options) { o.OnError = policy })
		k, exact := Key{Batch: 1}, want(t, e, n, Key{Batch: 1}, 0)
		read(t, e, Key{}, layout.NHWCForm)
		eventually(t, "the batch is read ahead", func() bool {
			return e.locked(func() bool { b := e.batches.table[k]; return b != nil && b.state == ready })
		})
		if bytes.Equal(read(t, e, k, layout.NHWCForm), exact) || samplesOf(t, e, k)[1].Status == catalog.StatusOK {
			t.Errorf("%v: nothing stands in for the bad sample", policy)
		}
		sample.repair()
		if !bytes.Equal(read(t, e, k, layout.NHWCForm), exact) {
			t.Errorf("%v: the repaired file is not shown", policy)
		}
		if s := samplesOf(t, e, k)[1]; s.Status != catalog.StatusOK || s.ID != 5 {
			t.Errorf("%v: its document says %+v", policy, s)
		}
	}
}

// TestBadSamplesAreBounded: if there is no room to remember a bad file, it is reported all the
// same, takes no memory, and is detected again.
func TestBadSamplesAreBounded(t *testing.T) {
	const n = 4
	ds := openDataset(t, testDir(t, n))
	l := newLedger(badFileBytes + 200) // for one file and one report
	bad := newBadSamples(ds, &badReports{ledger: l}, slog.New(slog.DiscardHandler))
	for range 2 {
		for id := range int64(n) {
			if err := bad.report(id, decode.ErrCorrupt, ds.Stat(int(id))); !errors.Is(err, ErrBad) {
				t.Error(err)
			}
			if err := bad.check(shard.Slot{ID: id}); !errors.Is(err, ErrBad) {
				t.Errorf("sample %d was just found bad, and is said to be: %v", id, err)
			}
		}
	}
	if len(bad.files) != 1 || len(bad.all()) == 0 || bad.total() < n || l.excess() > 0 {
		t.Errorf("%d files, %d reports of %d, %d bytes too many", len(bad.files), len(bad.all()), bad.total(), l.excess())
	}
}

// TestCheckOfARepairedFile: a check that began before a file was repaired, and is answered after
// that, neither brings the old report back nor reports the file again.
func TestCheckOfARepairedFile(t *testing.T) {
	ds := openDataset(t, testDir(t, 4))
	bad := newBadSamples(ds, &badReports{ledger: newLedger(1 << 20)}, slog.New(slog.DiscardHandler))
	seen := ds.Stat(1)
	if err := bad.report(1, decode.ErrCorrupt, seen); !errors.Is(err, ErrBad) {
		t.Fatal(err)
	}
	bad.look = func(i int) (dataset.Identity, error) {
		bad.markRepaired(int64(i), true) // by another worker, which saw the new file
		return seen, nil
	}
	if err := bad.check(shard.Slot{ID: 1}); !errors.Is(err, ErrBad) {
		t.Error(err)
	}
	bad.wasRead(1, seen)
	if n := bad.total(); n != 1 || len(bad.files) != 0 || len(bad.repaired) != 0 {
		t.Errorf("%d reports, %d bad files, %d repaired ones", n, len(bad.files), len(bad.repaired))
	}
}

// TestCheckOfAChangedFile: a changed file may take the place of a corrupt one, but not of a file
// that was bad because it changed. A deleted file stays bad.
func TestCheckOfAChangedFile(t *testing.T) {
	ds := openDataset(t, testDir(t, 1))
	indexed, other := ds.Stat(0), dataset.Identity{Size: 1, ModTime: 2}
	for _, c := range []struct {
		what   string
		reason error
		seen   dataset.Identity
		now    dataset.Identity
		err    error
		good   bool
	}{
		{"changed, then restored", dataset.ErrChanged, other, indexed, nil, true},
		{"changed, then again", dataset.ErrChanged, other, dataset.Identity{Size: 3, ModTime: 4}, dataset.ErrChanged, false},
		{"corrupt, then deleted", decode.ErrCorrupt, indexed, unknownIdentity, dataset.ErrMissing, false},
		{"corrupt, then changed", decode.ErrCorrupt, indexed, other, dataset.ErrChanged, true}, // last: it changes the index
	} {
		bad := newBadSamples(ds, &badReports{ledger: newLedger(1 << 20)}, slog.New(slog.DiscardHandler))
		bad.report(0, c.reason, c.seen)
		bad.look = func(int) (dataset.Identity, error) { return c.now, c.err }
		if err := bad.check(shard.Slot{}); (err == nil) != c.good || !c.good && !errors.Is(err, ErrBad) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestRepetitionsGoWithTheirCause: a batch that consists only of repetitions is no longer served
// without its sample once the file has been repaired.
func TestRepetitionsGoWithTheirCause(t *testing.T) {
	const n = 9
	for _, policy := range []catalog.OnError{Replace, Zero} {
		dir := testDir(t, n)
		change := func(o *Options) { o.Shards, o.OnError, o.PrefetchDepth = 2, policy, 0 }
		good := start(t, dir, change)
		k, id := Key{Batch: 1}, int64(-1)
		for k.Shard = range 2 {
			if s := samplesOf(t, good, k); s[0].Status == catalog.StatusPadded {
				id = s[0].ID
				break
			}
		}
		if id < 0 {
			t.Fatal("no shard ends with a batch of repetitions")
		}
		exact := read(t, good, k, layout.NHWCForm)
		e := start(t, dir, change) // before the damage, or the batch's size would be unknown
		sample := spoil(t, samplePath(dir, number(n, id)))
		if bytes.Equal(read(t, e, k, layout.NHWCForm), exact) {
			t.Errorf("%s: the bad sample is shown", policy)
		}
		before := e.Stats().Batches.Decoded
		read(t, e, k, layout.NHWCForm)
		if n := e.Stats().Batches.Decoded - before; n != 0 {
			t.Errorf("%s: the batch is made %d times more, although nothing has changed", policy, n)
		}
		sample.repair()
		if !bytes.Equal(read(t, e, k, layout.NHWCForm), exact) {
			t.Errorf("%s: the repaired sample is not shown", policy)
		}
	}
}

// TestBadSamplesAreMadeOnce: a batch that was made ahead with a bad sample is served as it is, if
// nothing has changed since. What is bad may be so in the crop of one epoch only, or gone.
func TestBadSamplesAreMadeOnce(t *testing.T) {
	const n, epochs = 40, 2
	for _, policy := range []catalog.OnError{Replace, Zero} {
		for what, break_ := range map[string]func(t *testing.T, path string){
			"damaged": func(t *testing.T, path string) {},
			"gone":    func(t *testing.T, path string) { testkit.Must(t, os.Remove(path)) },
		} {
			t.Run(fmt.Sprint(policy, " ", what), func(t *testing.T) {
				dir := t.TempDir()
				var bad []string
				for i := range n {
					path := filepath.Join(dir, fmt.Sprintf("%02d.png", i))
					var data bytes.Buffer
					testkit.Must(t, png.Encode(&data, image.NewGray(image.Rect(0, 0, 64, 64))))
					if i%4 == 1 {
						bad = append(bad, path)
						if what == "damaged" {
							data.Bytes()[data.Len()/2] ^= 0xff
						}
					}
					writeFile(t, path, data.Bytes())
				}
				e := start(t, dir, func(o *Options) {
					o.OnError, o.Epochs = policy, epochs
					o.Transform = resample.Options{Mode: resample.RandomResizedCrop, Height: 8, Width: 8, CropArea: resample.DefaultCropArea, CropRatio: resample.DefaultCropRatio}
				})
				for _, path := range bad {
					break_(t, path)
				}
				madeOnceEach(t, e)
			})
		}
	}
}

// TestRepairedWhileItIsOpened: a file that was corrupt is written anew in several steps, between
// which a batch is opened: each step after the batch's look at the file, and before its read. Or it
// is replaced by an image of another size at first. It is good in the end.
func TestRepairedWhileItIsOpened(t *testing.T) {
	const n = 4
	other := []byte("P6\n1 1\n255\nabc")
	for _, policy := range []catalog.OnError{Fail, Replace, Zero} {
		for what, steps := range map[string]func(good []byte) [][]byte{
			"at once":       func(good []byte) [][]byte { return [][]byte{good} },
			"slowly":        func(good []byte) [][]byte { return [][]byte{good[:20], good[:30], good[:40], good} },
			"another first": func(good []byte) [][]byte { return [][]byte{other, nil, good} },
		} {
			t.Run(fmt.Sprint(policy, " ", what), func(t *testing.T) {
				dir := testDir(t, n)
				e := built(t, dir, func(o *Options) { o.PrefetchDepth, o.OnError = 0, policy })
				s := spoil(t, samplePath(dir, number(n, 1)))
				list, look := [][]byte(nil), e.bad.look
				write := func(data []byte) {
					s.when = s.when.Add(time.Second)
					s.write(data)
				}
				e.bad.look = func(i int) (dataset.Identity, error) {
					id, err := look(i)
					if i == 1 && len(list) > 0 {
						if list[0] != nil {
							write(list[0])
						}
						list = list[1:]
					}
					return id, err
				}
				e.start()
				_ = opens(e, Key{}, layout.NHWCForm)
				write(s.good[:10])
				list = steps(s.good)
				for range 2 * len(list) {
					if err := opens(e, Key{}, layout.NHWCForm); err != nil && !errors.Is(err, ErrBad) {
						t.Error(err)
					}
				}
				if got := read(t, e, Key{}, layout.NHWCForm); !bytes.Equal(got, want(t, e, n, Key{}, 0)) {
					t.Error("other bytes")
				}
				if len(e.bad.repaired) != 0 {
					t.Error("it counts as repaired after it was read")
				}
			})
		}
	}
}

// TestCondemned: a sample whose annotations are bad is bad in every part at the first open, even if
// the index knows no version of its file, as it got the size from a manifest. Its file is not asked
// about: it may be on storage that fails.
func TestCondemned(t *testing.T) {
	const n = 4
	dir, list := testDir(t, n), ""
	for i := range n {
		h, w := testSize(i)
		path, err := filepath.Rel(dir, samplePath(dir, i))
		testkit.Must(t, err)
		list += fmt.Sprintf("{\"path\":%q,\"height\":%d,\"width\":%d,\"format\":\"ppm\"}\n", path, h, w)
	}
	manifest := filepath.Join(dir, "m.jsonl")
	writeFile(t, manifest, []byte(list))
	for _, fault := range []error{nil, unix.EIO} {
		for id := range int64(n) { // the last one has no array
			for _, form := range []layout.Form{layout.ArrayForm(0), layout.NHWCForm, layout.SafeTensors} {
				e := built(t, manifest, func(o *Options) {
					withArrays(t, o, n)
					o.PrefetchDepth, o.BatchSize, o.Condemned = 0, 1, map[int64]string{id: "a box has 3 numbers"}
				})
				if look := e.bad.look; fault != nil {
					e.bad.look = func(i int) (dataset.Identity, error) {
						seen, _ := look(i)
						return seen, fault
					}
				}
				e.start()
				for range 2 {
					err := opens(e, Key{Batch: int(id)}, form)
					if !errors.Is(err, ErrBad) || !strings.Contains(err.Error(), fmt.Sprintf("%03d.ppm: a box has 3", id)) {
						t.Errorf("%d.%s: %v", id, form.Ext(), err)
					}
				}
			}
		}
	}
}

// TestBadAfterAll: an image that was good once, and is bad now, is bad for its mask, too, even if
// another file has taken its place in the meantime.
func TestBadAfterAll(t *testing.T) {
	const n = 8
	dir, masks := maskDirs(t, n)
	e := startMasks(t, dir, masks, n, func(o *Options) { o.OnError, o.PrefetchDepth = Zero, 0 })
	read(t, e, Key{}, layout.NHWCForm)
	s := spoil(t, samplePath(dir, number(n, 1))) // it looks the same
	read(t, e, Key{Epoch: 1}, layout.NHWCForm)
	s.when = s.when.Add(time.Hour)
	s.write([]byte("P9"))
	for epoch := 1; epoch < 3; epoch++ {
		k := Key{Epoch: epoch}
		read(t, e, k, layout.NHWCForm)
		sameValues(t, e, n, k, false)
		if sameImages(t, e, n, k, samplesOf(t, e, k)); !isZeroed(samplesOf(t, e, k)[1]) {
			t.Errorf("epoch %d: it is good", epoch)
		}
	}
}

// TestLateResultsOfACorruptFile: loads of a corrupt file that end late, after another file has
// taken its place, leave it open to be repaired.
func TestLateResultsOfACorruptFile(t *testing.T) {
	for i := range 4 {
		accepted, gone := i%2 == 1, i/2 == 1 // in between
		ds := openDataset(t, testDir(t, 1))
		bad := newBadSamples(ds, &badReports{ledger: newLedger(1 << 20)}, slog.New(slog.DiscardHandler))
		indexed, now := ds.Stat(0), dataset.Identity{Size: 1, ModTime: 2}
		bad.look = func(int) (dataset.Identity, error) { return now, dataset.ErrChanged }
		bad.report(0, decode.ErrCorrupt, indexed)
		if accepted {
			testkit.Must(t, bad.check(shard.Slot{}))
			bad.wasRead(0, indexed)
			now.Size++
		}
		if gone {
			bad.report(0, dataset.ErrMissing, unknownIdentity)
		}
		bad.report(0, dataset.ErrChanged, now)
		if err := bad.check(shard.Slot{}); err != nil {
			t.Errorf("accepted before: %t, gone: %t: %v", accepted, gone, err)
		}
	}
}

// madeOnceEach checks that each batch is made once if all are read, one after the other.
func madeOnceEach(t *testing.T, e *Engine) {
	t.Helper()
	keys := allKeys(e)
	for _, k := range keys {
		read(t, e, k, layout.NHWCForm)
		testkit.Must(t, e.Quiet(t.Context()))
	}
	if made := e.Stats().Batches.Decoded; made != int64(len(keys)) {
		t.Errorf("%d batches were made for %d", made, len(keys))
	}
}

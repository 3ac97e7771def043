package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/target"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
	"golang.org/x/sys/unix"
)

// A defect is what is wrong with a sample.
type defect struct {
	inImages, inMasks bool   // the forms that fail under the policy fail
	says              string // a part of its description
	repair            func() // nil: it stays, like what has changed since it was indexed
}

// spoilSome starts an engine of n images with masks and annotations. A share of the samples, in
// eighths, is bad: their images or masks, before or after the dataset was indexed, or their
// annotations.
func spoilSome(t *testing.T, r *rand.Rand, n, share int, policy catalog.OnError, rules target.Rules) (*Engine, map[int64]*defect) {
	t.Helper()
	dir, masks := maskDirs(t, n)
	bad, condemned, later := map[int64]*defect{}, map[int64]string{}, []func(){}
	names := []string{"missing", "truncated", "of 16 bits", "of another size", "damaged"} // late faults of masks
	for id := range int64(n) {
		if r.IntN(8) >= share {
			continue
		}
		i := number(n, id)
		switch r.IntN(6) {
		case 0:
			corrupt(t, dir, i)
			bad[id] = &defect{true, true, "corrupt image", nil}
		case 1:
			bad[id] = &defect{true, false, "unsupported", nil}
			later = append(later, func() { bad[id].repair = spoil(t, samplePath(dir, i)).repair })
		case 2:
			writeFile(t, maskPath(masks, i), []byte("GIF89a, which is none"))
			bad[id] = &defect{true, true, fmt.Sprintf("%03d.png: ", i), nil}
		case 3:
			maskFaults["of another size"](t, masks, i)
			bad[id] = &defect{true, true, fmt.Sprintf("%03d.png: ", i), nil}
		case 4:
			fault := maskFaults[names[r.IntN(len(names))]]
			bad[id] = &defect{false, true, fmt.Sprintf("%03d.png: ", i), nil}
			later = append(later, func() { fault(t, masks, i) })
		case 5:
			condemned[id] = "labels.json: annotation 7: a box has 3 numbers"
			bad[id] = &defect{true, true, condemned[id], nil}
		}
	}
	e := startMasks(t, dir, masks, n, func(o *Options) {
		o.OnError, o.Shuffle, o.Fill, o.PrefetchDepth, o.Epochs = policy, r.IntN(2) == 0, 9, r.IntN(3), 2
		withTargets(t, o, n, -1, rules)
		o.Condemned = condemned
	})
	for _, f := range later {
		f()
	}
	return e, bad
}

// standsIn is the sample that replaces another one: the next one in the order that is not bad, had
// a size when it was indexed, and fits. There may be none.
func standsIn(e *Engine, n int, k Key, id int64, bad map[int64]*defect) (int64, bool) {
	at := int64(0)
	for e.catalog.Plan.ID(k.Epoch, at) != id {
		at++
	}
	spec := e.catalog.Spec(k)
	for i := range int64(n) {
		other := e.catalog.Plan.ID(k.Epoch, (at+i)%int64(n))
		if h, w := e.catalog.SizeOf(other); bad[other] == nil && h > 0 && h <= spec.H && w <= spec.W {
			return other, true
		}
	}
	return id, false
}

// TestBadSamplesOfAnyKind: whatever is bad, and since when, all forms of a batch fail, or show what
// the policy says, in agreement with the description, which says why. It does not matter which form
// is read first. What was repaired is shown again.
func TestBadSamplesOfAnyKind(t *testing.T) {
	seeds := 24
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		for _, policy := range []catalog.OnError{Fail, Replace, Zero} {
			r := rand.New(rand.NewPCG(uint64(seed), uint64(policy)))
			n, rules := 13+r.IntN(4), target.Rules{Max: 3 * r.IntN(2)}
			t.Run(fmt.Sprint(policy, " ", seed), func(t *testing.T) {
				e, bad := spoilSome(t, r, n, seed%8+1, policy, rules)
				for range 2 {
					for _, k := range allKeys(e) {
						checkBad(t, r, e, n, k, bad)
					}
				}
				if told := e.bad.total(); policy == Fail && int(told) != len(bad) {
					t.Errorf("%d of %d bad samples are reported: %+v", told, len(bad), e.Errors())
				}
				for _, r := range e.Errors() {
					if d := bad[r.ID]; d == nil || !strings.Contains(r.Path+": "+r.Reason, d.says) {
						t.Errorf("sample %d is reported: %s: %s", r.ID, r.Path, r.Reason)
					}
				}
				for id, d := range bad {
					if d.repair != nil {
						d.repair()
						delete(bad, id)
					}
				}
				for _, k := range allKeys(e) {
					checkBad(t, r, e, n, k, bad)
				}
			})
		}
	}
}

// checkBad compares all forms of a batch with what the policy makes of bad samples.
func checkBad(t *testing.T, r *rand.Rand, e *Engine, n int, k Key, bad map[int64]*defect) {
	t.Helper()
	slots, valid := e.catalog.Slots(k)
	policy, wrong := e.catalog.Options.OnError, map[layout.Form]bool{}
	for _, s := range slots {
		if d := bad[s.ID]; d != nil {
			_, there := standsIn(e, n, k, s.ID, bad)
			none := policy == Replace && !there
			wrong[layout.NHWCForm] = wrong[layout.NHWCForm] || none || policy == Fail && d.inImages
			wrong[layout.MasksNPY] = wrong[layout.MasksNPY] || none || policy == Fail && d.inMasks
			wrong[layout.SafeTensors] = wrong[layout.SafeTensors] || none || policy == Fail
		}
	}
	forms := []layout.Form{layout.NHWCForm, layout.MasksNPY, layout.SafeTensors}
	r.Shuffle(len(forms), func(i, j int) { forms[i], forms[j] = forms[j], forms[i] })
	if policy != Fail { // if none is read before, the description comes first
		forms = forms[r.IntN(4):]
	}
	for _, form := range forms {
		if err := opens(e, k, form); wrong[form] != errors.Is(err, ErrBad) || !wrong[form] && err != nil {
			t.Errorf("%s.%s: bad is %t, and the open says %v", k, form.Ext(), wrong[form], err)
		}
	}
	if wrong[layout.SafeTensors] {
		return
	}
	samples := samplesOf(t, e, k)
	for i, s := range samples {
		own, want := slots[i].ID, catalog.StatusOK
		d := bad[own]
		if d == nil {
			if s.ID != own || s.Status != catalog.StatusOK && s.Status != catalog.StatusPadded || s.Reason != "" {
				t.Errorf("%s: slot %d of sample %d shows %+v", k, i, own, s)
			}
			continue
		}
		other, _ := standsIn(e, n, k, own, bad)
		if want = catalog.StatusReplaced; policy == Zero {
			other, want = own, catalog.StatusZeroed
		}
		if i >= valid {
			want = catalog.StatusPadded
		}
		if s.Status != want || s.ID != other && policy == Replace || (s.Label == -1) != (policy == Zero) || !strings.Contains(s.Reason, d.says) {
			t.Errorf("%s: slot %d of sample %d shows %+v, not %d, since %s", k, i, own, s, other, d.says)
		}
	}
	sameValues(t, e, n, k, false)
	sameImages(t, e, n, k, samples)
	sameTensors(t, e, k)
	checkRows(t, e, n, k, samples)
}

// checkRows compares a batch's objects with those of the samples in its slots. Where samples have
// as many rows as objects, those of a bad one stay, without objects.
func checkRows(t *testing.T, e *Engine, n int, k Key, samples []catalog.Sample) {
	t.Helper()
	slots, _ := e.catalog.Slots(k)
	most, labels := e.catalog.Options.Targets.Rules.Max, int64s(targetFile(t, e, k, layout.BoxLabels))
	offsets := []int64{0, int64(most), 2 * int64(most), 3 * int64(most), 4 * int64(most)}
	if most == 0 {
		offsets = int64s(targetFile(t, e, k, layout.BoxOffsets))
	}
	for i, s := range samples {
		rows, objects := labels[offsets[i]:offsets[i+1]], 0
		if !isZeroed(s) && (most > 0 || s.ID == slots[i].ID) {
			if objects = number(n, s.ID) % 4; number(n, s.ID)%5 == 4 {
				objects = 0
			}
		}
		unused := slices.ContainsFunc(rows[:objects], func(label int64) bool { return label < 0 })
		if unused || slices.ContainsFunc(rows[objects:], func(label int64) bool { return label >= 0 }) {
			t.Errorf("%s: slot %d, %+v, has the rows %d, not those of %d objects", k, i, s, rows, objects)
		}
	}
}

// TestDescribesBadSamples: a batch's description says what the last attempt to read its files
// found, without reading them itself.
func TestDescribesBadSamples(t *testing.T) {
	const n = 16
	dir := testDir(t, n)
	e := start(t, dir, func(o *Options) { o.PrefetchDepth = 0 })
	sample := spoil(t, samplePath(dir, number(n, 1)))
	gone := samplePath(dir, number(n, 2))
	expect := func(when string, id int, reason string) {
		t.Helper()
		s := samplesOf(t, e, Key{})[id]
		if (s.Status == catalog.StatusCorrupt) != (reason != "") || s.Status == catalog.StatusPadded || !strings.Contains(s.Reason, reason) || reason == "" && s.Reason != "" {
			t.Errorf("%s: %+v, not %q", when, s, reason)
		}
	}
	fails := func(when string) {
		t.Helper()
		fails(t, e, Key{}, layout.NHWCForm, ErrBad)
	}
	expect("nothing was read", 1, "")
	fails("a file is damaged")
	expect("read", 1, "unsupported")
	expect("beside it", 0, "")
	sample.repair()
	expect("repaired, which nobody has noticed", 1, "unsupported")
	read(t, e, Key{}, layout.NHWCForm)
	expect("repaired", 1, "")

	for batch := 1; batch < n/4; batch++ {
		read(t, e, Key{Batch: batch}, layout.NHWCForm) // so that the first batch is not kept
	}
	testkit.Must(t, os.Rename(gone, gone+"-"))
	fails("a file is missing")
	expect("missing", 2, "missing")
	testkit.Must(t, os.Rename(gone+"-", gone))
	read(t, e, Key{}, layout.NHWCForm)
	expect("back", 2, "")
	if n := e.Stats().Errors; n != 2 {
		t.Errorf("%d errors were counted", n)
	}
}

// TestCorruptPartsBelongToTheirEpoch: a fault in one random crop says nothing about another crop,
// and a padded slot stays padded.
func TestCorruptPartsBelongToTheirEpoch(t *testing.T) {
	ds := openDataset(t, testDir(t, 4))
	bad := newBadSamples(ds, &badReports{ledger: newLedger(1 << 20)}, slog.New(slog.DiscardHandler))
	bad.report(1, partError{decode.ErrCorrupt, 3}, ds.Stat(1))
	for epoch, want := range map[int]bool{2: false, 3: true} {
		if got := bad.known(shard.Slot{ID: 1, Epoch: epoch}); (got != "") != want {
			t.Errorf("epoch %d: %q", epoch, got)
		}
	}
	bad.report(2, unix.EACCES, unknownIdentity)
	bad.report(3, dataset.ErrChanged, dataset.Identity{Size: 1, ModTime: 2})
	for id, want := range map[int64]bool{2: false, 3: true} {
		if bad.wasRead(id, ds.Stat(int(id))); (bad.known(shard.Slot{ID: id}) != "") != want {
			t.Errorf("sample %d was read, and is said to be bad: %v", id, !want)
		}
	}
}

// TestEpochStatsAreBounded: a run of many epochs has figures for the last ones and a count
// of the others.
func TestEpochStatsAreBounded(t *testing.T) {
	m := meter{start: time.Now()}
	const epochs = 10 * maxEpochStats
	for epoch := range epochs {
		m.read(epoch, 10, false, epoch%2 == 0)
		m.hit(epoch)
	}
	s := m.snapshot(time.Now())
	if len(s.Epochs) != maxEpochStats || s.EpochsOmitted != epochs-maxEpochStats || cap(m.epochs) > 2*maxEpochStats {
		t.Errorf("%d epochs of %d, %d omitted, room for %d", len(s.Epochs), epochs, s.EpochsOmitted, cap(m.epochs))
	}
	for i, e := range s.Epochs {
		if e.Epoch != epochs-maxEpochStats+i || e.Hits != 1 || e.Misses != 1 || e.StorageBytes != 10 {
			t.Errorf("%+v", e)
		}
	}
	if s.Epochs[0].LocalHits != 1 || s.Epochs[1].LocalHits != 0 {
		t.Errorf("%d and %d hits of the local cache", s.Epochs[0].LocalHits, s.Epochs[1].LocalHits)
	}
	if s.Storage.Reads != epochs {
		t.Errorf("%d reads in all", s.Storage.Reads)
	}
}

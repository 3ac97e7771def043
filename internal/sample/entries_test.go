package sample

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/entries"
	"github.com/batchfs/batchfs/internal/testkit"
)

// fakeDecoder answers as it is told, and notes what it was given.
type fakeDecoder struct {
	rule   decode.EntryRule
	at     []decode.EntryPoint
	made   []decode.EntryPoint
	result decode.EntryResult
}

func (d *fakeDecoder) SetEntryPoints(rule decode.EntryRule, at []decode.EntryPoint) {
	d.rule, d.at = rule, slices.Clone(at)
}

func (d *fakeDecoder) SetPart(int64, int64) {}

func (d *fakeDecoder) TakeEntryPoints() ([]decode.EntryPoint, decode.EntryResult) {
	return d.made, d.result
}

// jpegs opens a dataset of n JPEGs, with an index.
func jpegs(t *testing.T, n int) *dataset.Dataset {
	t.Helper()
	f := files{}
	for i := range n {
		var b bytes.Buffer
		testkit.Must(t, jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 100+i, 80)), nil))
		f[fmt.Sprintf("%d.jpg", i)] = b.Bytes()
	}
	return open(t, f, "")
}

func openEntries(t *testing.T, ds *dataset.Dataset) *entries.Store {
	t.Helper()
	store, err := ds.OpenEntries(entries.Options{Rule: int32(decode.EntryRows)})
	testkit.Must(t, err)
	return store
}

// TestEntries follows the entry points of a sample from decoding to decoding.
func TestEntries(t *testing.T) {
	ds := jpegs(t, 3)
	store := openEntries(t, ds)
	defer store.Close()
	points := []decode.EntryPoint{1, 1 << 63, 0x123456789abcdef}
	data, failure := []byte("its bytes"), errors.New("of the machine")
	changed := []byte("its Bytes")
	for _, step := range []struct {
		what       string
		i          int64
		verify     bool
		data       []byte
		seen       dataset.Identity
		made       []decode.EntryPoint
		result     decode.EntryResult
		err        error
		rule       decode.EntryRule // the decoder is given
		at         []decode.EntryPoint
		want       EntryCounts
		has, known bool // afterwards
	}{
		{"the machine fails", 0, false, data, ds.Stat(0), points, decode.EntriesMade, failure, decode.EntryRows, nil, EntryCounts{}, false, false},
		{"nothing was made", 0, false, data, ds.Stat(0), nil, decode.EntriesUnused, nil, decode.EntryRows, nil, EntryCounts{}, false, false},
		{"they are made", 0, false, data, ds.Stat(0), points, decode.EntriesMade, nil, decode.EntryRows, nil, EntryCounts{Made: 1}, true, true},
		{"they are used", 0, false, data, ds.Stat(0), nil, decode.EntriesUsed, nil, decode.EntryRows, points, EntryCounts{Used: 1}, true, true},
		{"the same bytes", 0, true, data, ds.Stat(0), nil, decode.EntriesUsed, nil, decode.EntryRows, points, EntryCounts{Used: 1}, true, true},
		{"other bytes, unnoticed", 0, false, changed, ds.Stat(0), nil, decode.EntriesUsed, nil, decode.EntryRows, points, EntryCounts{Used: 1}, true, true},
		{"other bytes", 0, true, changed, ds.Stat(0), points[1:], decode.EntriesMade, nil, decode.EntryRows, nil, EntryCounts{Made: 1, Wrong: 1}, true, true},
		{"other bytes, now known", 0, true, changed, ds.Stat(0), nil, decode.EntriesUsed, nil, decode.EntryRows, points[1:], EntryCounts{Used: 1}, true, true},
		{"other bytes, and a failure", 0, true, data, ds.Stat(0), points, decode.EntriesMade, failure, decode.EntryRows, nil, EntryCounts{Wrong: 1}, false, false},
		{"another version", 0, false, data, dataset.Identity{Size: 1, ModTime: 2}, points, decode.EntriesMade, nil, decode.EntryRows, nil, EntryCounts{Made: 1}, false, false},
		{"none", 1, false, data, ds.Stat(1), nil, decode.EntriesNone, nil, decode.EntryRows, nil, EntryCounts{None: 1}, false, true},
		{"not tried again", 1, false, data, ds.Stat(1), nil, decode.EntriesUnused, nil, decode.EntryOff, nil, EntryCounts{}, false, true},
		{"none, of other bytes", 1, true, changed, ds.Stat(1), points, decode.EntriesMade, nil, decode.EntryRows, nil, EntryCounts{Made: 1, Wrong: 1}, true, true},
		{"a bad file has none", 2, false, data, ds.Stat(2), nil, decode.EntriesNone, decode.ErrCorrupt, decode.EntryRows, nil, EntryCounts{None: 1}, false, true},
		{"wrong", 1, false, changed, ds.Stat(1), nil, decode.EntriesWrong, nil, decode.EntryRows, points, EntryCounts{Wrong: 1}, false, false},
	} {
		e, d := NewEntries(ds, store, step.verify), &fakeDecoder{made: step.made, result: step.result}
		e.Find(step.i, step.seen, step.data)
		e.Begin(d)
		if d.rule != step.rule || !slices.Equal(d.at, step.at) {
			t.Errorf("%s: the decoder got rule %d, %x", step.what, d.rule, d.at)
		}
		if n := e.End(d, step.i, step.seen, step.data, step.err); n != step.want {
			t.Errorf("%s: counted %+v", step.what, n)
		}
		if has, known := e.Known(step.i, ds.Stat(int(step.i))); has != step.has || known != step.known {
			t.Errorf("%s: has %t, known %t", step.what, has, known)
		}
	}
}

// TestNothingMadeInVain: a decoder makes no entry points that cannot be stored.
func TestNothingMadeInVain(t *testing.T) {
	ds := jpegs(t, 1)
	store := openEntries(t, ds)
	testkit.Must(t, store.Close())
	d := &fakeDecoder{rule: 7}
	e := NewEntries(ds, store, false)
	e.Find(0, ds.Stat(0), nil)
	e.Begin(d)
	if d.rule != decode.EntryOff {
		t.Errorf("rule %d", d.rule)
	}
}

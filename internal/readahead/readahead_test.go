package readahead

import (
	"slices"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// A fakeShelf makes batches at once, and notes which are given up.
type fakeShelf struct {
	streams *Streams
	made    map[catalog.Key]bool
	gone    []int
}

func (f *fakeShelf) Prefetch(k catalog.Key, _ layout.Form) bool {
	if f.made[k] {
		return false
	}
	f.made[k] = true
	return true
}

func (f *fakeShelf) Discard(k catalog.Key) {
	f.streams.Left(k)
	delete(f.made, k)
	f.gone = append(f.gone, k.Batch)
}

func (f *fakeShelf) Unneeded(k catalog.Key) {
	if !f.streams.Needs(k) {
		f.Discard(k)
	}
}

func (f *fakeShelf) GiveUp(k catalog.Key) { f.Discard(k) }

func (f *fakeShelf) Held(catalog.Key) bool { return false }

// testStreams returns the streams of one shard of 100 batches.
func testStreams(t *testing.T, depth int) (*Streams, *fakeShelf) {
	t.Helper()
	order := shard.Config{Samples: 100, Shards: 1, BatchSize: 1, PadLastBatch: true}
	plan, err := shard.New(order)
	testkit.Must(t, err)
	shelf := &fakeShelf{made: map[catalog.Key]bool{}}
	shelf.streams = New(&catalog.Catalog{Plan: plan, Options: catalog.Options{Config: order, Epochs: 2}}, depth, shelf)
	return shelf.streams, shelf
}

func batches(keys []catalog.Key) (numbers []int) {
	for _, k := range keys {
		numbers = append(numbers, k.Batch)
	}
	return numbers
}

// TestStreamsAlone: what is read ahead and kept for one reader, for a second one a little behind,
// and for two that meet.
func TestStreamsAlone(t *testing.T) {
	all, shelf := testStreams(t, 3)
	open := func(index int) *stream {
		k := catalog.Key{Batch: index}
		shelf.made[k] = true
		all.Follow(k, layout.NHWCForm)
		return all.byBatch[k]
	}
	var s *stream
	for i := range 10 {
		s = open(i)
	}
	if got := batches(s.ahead); !slices.Equal(got, []int{10, 11, 12}) {
		t.Errorf("ahead of batch 9: %v", got)
	}
	if got := batches(s.recent); !slices.Equal(got, []int{8, 9}) || !slices.Equal(shelf.gone, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("kept: %v, given up: %v", got, shelf.gone)
	}
	open(7) // a second reader, two behind: their streams merge
	for i := 10; i < 15; i++ {
		s = open(i)
	}
	if got := batches(s.recent); !slices.Equal(got, []int{11, 12, 13, 14}) {
		t.Errorf("kept for a reader that is two behind: %v", got)
	}
	open(60)
	open(61)
	if streams, ahead := all.Count(); streams != 2 || ahead != 6 {
		t.Errorf("%d streams with %d batches ahead, after a jump", streams, ahead)
	}
	for i := 15; i < 60; i++ {
		open(i)
	}
	if streams, ahead := all.Count(); streams != 1 || ahead != 3 {
		t.Errorf("%d streams with %d batches ahead, where two have met", streams, ahead)
	}
	if ended, _ := all.EndIdle(time.Now().Add(time.Hour), time.Minute); ended != 1 || all.AnyRead() {
		t.Errorf("%d streams ended by idleness", ended)
	}
}

// TestStreamsBegin: the batch after a single one may be opened a little out of order, by processes
// that take turns, and still shows the order. A batch farther ahead is another single one.
func TestStreamsBegin(t *testing.T) {
	const depth = 3
	for steps, ahead := range map[int]int64{1: depth, depth + 1: depth, depth + 2: 0, -1: 0} {
		all, shelf := testStreams(t, depth)
		for _, index := range []int{20, 20 + steps} {
			k := catalog.Key{Batch: index}
			shelf.made[k] = true
			all.Follow(k, layout.NHWCForm)
		}
		if _, n := all.Count(); n != ahead {
			t.Errorf("%d batches after a lone one: %d are read ahead, want %d", steps, n, ahead)
		}
	}
}

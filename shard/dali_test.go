package shard

import (
	"bufio"
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfs/batchfs/internal/testkit"
)

// vector is a line of testdata/dali.jsonl: the batches of one epoch.
type vector struct {
	Samples      int64         `json:"samples"`
	Shards       int           `json:"shards"`
	Shard        int           `json:"shard"`
	BatchSize    int           `json:"batch_size"`
	StickToShard bool          `json:"stick_to_shard"`
	PadLastBatch bool          `json:"pad_last_batch"`
	LastBatch    string        `json:"last_batch"`
	Epoch        int           `json:"epoch"`
	Batches      []vectorBatch `json:"batches"`
}

type vectorBatch struct {
	Positions []int64 `json:"positions"`
	Valid     int     `json:"valid"`
}

// eachLine decodes a file with one JSON object per line.
func eachLine[T any](t *testing.T, path string, use func(line int, value T)) {
	t.Helper()
	file, err := os.Open(path)
	testkit.Must(t, err)
	defer file.Close()
	lines, scan := 0, bufio.NewScanner(file)
	for scan.Scan() {
		lines++
		var value T
		if err := json.Unmarshal(scan.Bytes(), &value); err != nil {
			t.Fatalf("%s:%d: %v", path, lines, err)
		}
		use(lines, value)
	}
	if err := scan.Err(); err != nil || lines == 0 {
		t.Fatalf("%s: %d lines, %v", path, lines, err)
	}
}

func TestVectors(t *testing.T) {
	eachLine(t, "testdata/dali.jsonl", func(line int, v vector) {
		last := map[string]LastBatch{"fill": Fill, "partial": Partial, "drop": Drop}[v.LastBatch]
		if last.String() != v.LastBatch {
			t.Fatalf("line %d: %q is printed as %v", line, v.LastBatch, last)
		}
		p := mustPlan(t, Config{
			Samples: v.Samples, Shards: v.Shards, BatchSize: v.BatchSize,
			StickToShard: v.StickToShard, PadLastBatch: v.PadLastBatch, LastBatch: last,
		})
		got := []vectorBatch{}
		for i := range p.Batches(v.Shard, v.Epoch) {
			slots, valid := p.Batch(v.Shard, v.Epoch, i, nil)
			b := vectorBatch{Positions: []int64{}, Valid: valid}
			for _, slot := range slots {
				b.Positions = append(b.Positions, slot.Position)
			}
			got = append(got, b)
		}
		if diff := cmp.Diff(v.Batches, got); diff != "" {
			t.Errorf("line %d: (-want +got)\n%s", line, diff)
		}
	})
}

// world is a second, literal model of DALI without padding: readers that advance sample by sample,
// and iterators that credit samples read ahead.
type world struct {
	cfg     Config
	sizes   []int64 // of the range that each shard must read in this epoch
	credit  []int64 // how much of it each shard has already read
	readers []reader
}

type reader struct {
	at    int64
	shard int // whose range is being read
	epoch int // number of completed ranges
}

func newWorld(cfg Config) *world {
	w := &world{cfg: cfg, credit: make([]int64, cfg.Shards)}
	for x := range cfg.Shards {
		w.sizes = append(w.sizes, w.start(x+1)-w.start(x))
		w.readers = append(w.readers, reader{at: w.start(x), shard: x})
	}
	return w
}

func (w *world) start(x int) int64 { return w.cfg.Samples * int64(x) / int64(w.cfg.Shards) }

func (w *world) rotate() {
	w.sizes = append(w.sizes[1:], w.sizes[0])
}

// next is the reader's next slot, without an id.
func (w *world) next(shard int) Slot {
	r := &w.readers[shard]
	if r.at == w.start(r.shard+1) {
		if !w.cfg.StickToShard {
			r.shard = (r.shard + 1) % w.cfg.Shards
		}
		r.at = w.start(r.shard)
		r.epoch++
	}
	slot := Slot{Position: r.at, Epoch: r.epoch}
	r.at++
	return slot
}

// need is the number of batches until every shard has read its range.
func (w *world) need() int64 {
	b, most := int64(w.cfg.BatchSize), int64(-1)<<40
	for x := range w.sizes {
		most = max(most, w.sizes[x]-w.credit[x])
	}
	if most <= 0 {
		return 0
	}
	return (most + b - 1) / b
}

// epoch delivers the batches of all shards, and advances to the next epoch.
func (w *world) epoch() (batches [][][]Slot) {
	n, k, b := w.cfg.Samples, int64(w.cfg.Shards), int64(w.cfg.BatchSize)
	full, read := (n/k)/b, ((n+k-1)/k+b-1)/b
	switch w.cfg.LastBatch {
	case Drop:
		if read = full; n/k%b != 0 {
			read++
		}
	case Fill:
		if read = w.need(); read <= 0 {
			clear(w.credit)
			w.rotate()
			read = w.need()
		}
	}
	for x := range w.sizes {
		all := [][]Slot{}
		for range read {
			batch := []Slot{}
			for range b {
				batch = append(batch, w.next(x))
			}
			all = append(all, batch)
		}
		switch w.cfg.LastBatch {
		case Drop:
			all = all[:full]
		case Partial:
			all[read-1] = all[read-1][:w.sizes[x]-(read-1)*b]
		case Fill:
			w.credit[x] += read*b - w.sizes[x]
		}
		batches = append(batches, all)
	}
	if !w.cfg.StickToShard {
		w.rotate()
	}
	return batches
}

// TestUnpadded compares the closed forms with the literal model, slot by slot, including the
// epochs of slots.
func TestUnpadded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 600 {
		cfg := Config{Samples: 1 + rng.Int64N(60), BatchSize: 1 + rng.IntN(14), StickToShard: rng.IntN(2) == 0, LastBatch: LastBatch(rng.IntN(3))}
		cfg.Shards = 1 + rng.IntN(min(int(cfg.Samples), 9))
		if rng.IntN(8) == 0 {
			cfg.BatchSize = 1 + rng.IntN(200) // far larger than a range
		}
		p, w := mustPlan(t, cfg), newWorld(cfg)
		for epoch := range 24 {
			for shard, want := range w.epoch() {
				if got := positions(p, shard, epoch); !slices.EqualFunc(want, got, slices.Equal) {
					t.Fatalf("%+v, shard %d, epoch %d: (-want +got)\n%s", cfg, shard, epoch, cmp.Diff(want, got))
				}
			}
		}
	}
}

// positions are the slots of an epoch without ids.
func positions(p *Plan, shard, epoch int) [][]Slot {
	all := [][]Slot{}
	for i := range p.Batches(shard, epoch) {
		slots, _ := p.Batch(shard, epoch, i, []Slot{})
		for j := range slots {
			slots[j].ID = 0
		}
		all = append(all, slots)
	}
	return all
}

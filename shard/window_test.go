package shard

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// TestWindowsMixWholeBlocks: an epoch is divided into windows of at most W blocks, each holding
// exactly the samples of its blocks. Over the epochs, the blocks of a window change.
func TestWindowsMixWholeBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 52))
	for range 100 {
		cfg := Config{Samples: 1 + rng.Int64N(3000), Shards: 1, BatchSize: 1, Shuffle: true, Seed: rng.Uint64(), Window: 1 + rng.IntN(12)}
		if rng.IntN(4) > 0 {
			cfg.Blocks = cuts(cfg.Samples, rng.Int64N(200))
		}
		cfg.Costs = costsEvery(cfg.Samples, rng.Int64N(4), rng.Int64N(4))
		p, epoch := mustPlan(t, cfg), rng.IntN(1000)
		checkBijection(t, p, epoch)
		order := p.order(epoch)
		for at := int64(0); at < cfg.Samples; at = order.window.hi {
			order.id(at)
			w, seen := order.window, map[int64]int64{}
			for position := w.lo; position < w.hi; position++ {
				seen[p.Block(order.id(position))]++
			}
			if w.lo != at || len(seen) > cfg.Window {
				t.Fatalf("%+v: the window at %d begins at %d, with %d blocks", cfg, at, w.lo, len(seen))
			}
			for block, n := range seen {
				if size := p.blocks.start(block+1) - p.blocks.start(block); n != size {
					t.Fatalf("%+v: %d of the %d samples of block %d are in the window at %d", cfg, n, size, block, at)
				}
			}
		}
	}
}

// TestWindowsAreUniform: every position of a window holds each of its samples equally often, and
// every place in the order holds each block equally often.
func TestWindowsAreUniform(t *testing.T) {
	const blocks, size, window, epochs = 6, 4, 2, 3000
	held, placed := make([]int, window*size*window*size), make([]int, blocks*blocks)
	p := mustPlan(t, Config{Samples: blocks * size, Shards: 1, BatchSize: 1, Shuffle: true, Window: window, Blocks: slices.Repeat([]int64{size}, blocks)})
	for epoch := range epochs {
		order := p.order(epoch)
		for at := range int64(window * size) {
			id := order.id(at)
			// Number samples by the place of their block in this epoch.
			for place := range int64(window) {
				if int64(order.window.order.at(uint64(place))) == id/size {
					held[at*window*size+place*size+id%size]++
				}
			}
		}
		for place := range blocks {
			placed[place*blocks+int(order.window.order.at(uint64(place)))]++
		}
	}
	if z := excess(held, epochs/float64(window*size), (window*size-1)*(window*size-1)); z > 4 {
		t.Errorf("held: chi-square is %.1f deviations above its mean", z)
	}
	if z := excess(placed, epochs/float64(blocks), (blocks-1)*(blocks-1)); z > 4 {
		t.Errorf("placed: chi-square is %.1f deviations above its mean", z)
	}
}

// TestWindowsRemember: remembered epochs change no result, even if several goroutines ask for many
// epochs.
func TestWindowsRemember(t *testing.T) {
	cfg := Config{Samples: 500, Shards: 2, BatchSize: 10, Shuffle: true, Seed: 3, Window: 3, Blocks: cuts(500, 40)}
	shared, wait := mustPlan(t, cfg), sync.WaitGroup{}
	for worker := range 4 {
		wait.Go(func() {
			rng := rand.New(rand.NewPCG(53, uint64(worker)))
			for range 300 {
				epoch, position := rng.IntN(12), rng.Int64N(cfg.Samples)
				if want := mustPlan(t, cfg).ID(epoch, position); shared.ID(epoch, position) != want {
					t.Errorf("epoch %d, position %d: not sample %d", epoch, position, want)
				}
			}
		})
	}
	wait.Wait()
}

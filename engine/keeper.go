package engine

import (
	"log/slog"
	"sync"
	"time"

	"github.com/batchfs/batchfs/shard"
)

// keptPlans is how many epochs' choices are held: readers of one dataset are in two
// neighbouring epochs or jump.
const keptPlans = 4

// A keeper tells the cache which samples to keep from one epoch to the next. A
// choice is computed once, in the background, when its epoch or the one before it is
// first read; whoever needs it earlier waits for it.
type keeper struct {
	plan   *shard.Plan
	last   int // epoch
	config shard.KeepConfig
	ledger *Ledger
	log    *slog.Logger

	mu     sync.Mutex
	epochs []*keptEpoch // the least recently begun first
	closed bool
	wait   sync.WaitGroup
}

type keptEpoch struct {
	epoch int
	read  bool // somebody reads it
	done  chan struct{}
	keep  *shard.Keep // nil: nothing is kept; set when done
}

// kept is the choice, once it is done.
func (e *keptEpoch) kept(id int64) bool { return e.keep != nil && e.keep.Kept(id) }

// newKeeper begins with epoch 0, where readers begin most often.
func newKeeper(plan *shard.Plan, epochs int, c shard.KeepConfig, l *Ledger, log *slog.Logger) *keeper {
	k := &keeper{plan: plan, last: epochs - 1, config: c, ledger: l, log: log}
	k.begin(0, nil)
	return k
}

// Keep says whether a sample that is read in an epoch is kept for the next.
func (k *keeper) Keep(epoch int, id int64) bool {
	e := k.of(epoch)
	<-e.done
	return e.kept(id)
}

// kept is Keep for who does not wait: known is false while the choice is being computed.
func (k *keeper) kept(epoch int, id int64) (kept, known bool) {
	e := k.of(epoch)
	select {
	case <-e.done:
		return e.kept(id), true
	default:
		return false, false
	}
}

// of returns the choice for an epoch that is being read, which may not be there
// yet, and sees to the one after it.
func (k *keeper) of(epoch int) *keptEpoch {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.find(epoch)
	if e == nil {
		e = k.begin(epoch, nil)
	}
	if !e.read {
		e.read = true
		if k.find(epoch+1) == nil {
			k.begin(epoch+1, e)
		}
	}
	return e
}

func (k *keeper) find(epoch int) *keptEpoch {
	for i := len(k.epochs) - 1; i >= 0; i-- {
		if k.epochs[i].epoch == epoch {
			return k.epochs[i]
		}
	}
	return nil
}

// begin has a choice computed, after another one where that is not nil.
func (k *keeper) begin(epoch int, after *keptEpoch) *keptEpoch {
	e := &keptEpoch{epoch: epoch, done: make(chan struct{})}
	if k.closed || epoch >= k.last { // nobody reads on from the last
		close(e.done)
		return e
	}
	k.epochs = append(k.epochs, e)
	if len(k.epochs) > keptPlans {
		k.forget(k.epochs[0])
		k.epochs = k.epochs[1:]
	}
	k.wait.Go(func() {
		if after != nil {
			<-after.done
		}
		k.choose(e)
	})
	return e
}

// choose computes a choice. Its memory is charged: what it takes while it works,
// and what remains.
func (k *keeper) choose(e *keptEpoch) {
	defer close(e.done)
	working := k.plan.KeepMemory(k.config)
	k.ledger.force(useIndex, working)
	defer k.ledger.release(useIndex, working)
	began := time.Now()
	keep, err := k.plan.Keep(e.epoch, k.config)
	if err != nil {
		k.log.Error("cannot plan what the cache keeps", "epoch", e.epoch, "reason", err)
		return
	}
	k.ledger.force(useIndex, keep.Bytes())
	e.keep = keep
	all, _ := keep.Count()
	k.log.Debug("planned what the cache keeps", "epoch", e.epoch, "samples", all, "seconds", time.Since(began).Seconds())
}

// forget gives back what a choice is charged, when it is there.
func (k *keeper) forget(e *keptEpoch) {
	k.wait.Go(func() {
		<-e.done
		if e.keep != nil {
			k.ledger.release(useIndex, e.keep.Bytes())
		}
	})
}

// close waits for what is being computed. Whoever asks later is told that nothing
// is kept.
func (k *keeper) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.wait.Wait()
}

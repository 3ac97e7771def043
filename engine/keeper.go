package engine

import (
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfs/batchfs/shard"
)

// A keeper tells the cache which samples to keep from one epoch to the next, as far as that is
// known: nobody ever waits for it. A choice is computed by one goroutine, one at a time, when
// its epoch or the one before it is first read. It is shared by all who read the epoch, and held
// for as long as there is room: the one whose last reader is longest ago goes first, and none
// goes that is in use. Where more epochs are read than can be held, nothing is kept of the
// others, so that no choice is computed over and over.
//
// A nil keeper plans nothing.
type keeper struct {
	last   atomic.Int64 // epoch: nothing is kept of it, nor of later ones
	window int64        // what was not asked about among so many questions is not in use
	most   int          // choices held
	bytes  int64        // that a choice takes
	needs  int64        // bytes that computing one takes, at most, or about
	choose func(epoch int, w shard.Workspace) (*shard.Keep, error)
	busy   func() bool // somebody waits for a batch
	pause  time.Duration
	ledger *Ledger
	log    *slog.Logger

	asked atomic.Int64                       // counts what was asked
	known atomic.Pointer[map[int]*keptEpoch] // by epoch; immutable, replaced under mu

	mu      sync.Mutex
	epochs  map[int]*keptEpoch // what known is a copy of
	held    int                // of them, those that have been computed
	demands int64              // counts epochs that somebody began to read, or is about to
	working *workspace         // of the choice that is being computed
	closed  bool
	wake    chan struct{} // something is wanted
	closing chan struct{}
	wait    sync.WaitGroup
}

// A keptEpoch is the choice for one epoch, wanted or there.
type keptEpoch struct {
	epoch int
	keep  atomic.Pointer[shard.Keep] // nil until it is there
	used  atomic.Int64               // keeper.asked when it was last asked
	read  atomic.Bool                // somebody reads the epoch

	demand int64 // which of the demands it was
	said   bool  // that it is not to be had for now
}

const (
	// mostWanted bounds the choices that are waited for; those that were asked for least recently
	// are forgotten first.
	mostWanted = 32
	// leastPlans is enough for one reader, and its late partners: two epochs.
	leastPlans = 2
	mostPlans  = 64
	// planShare is the part of the memory limit that choices may take when they are there.
	planShare = 16
	// After a choice did not get the memory that it takes, it is tried again after firstPause, and
	// after twice as long each time, up to lastPause.
	firstPause = 250 * time.Millisecond
	lastPause  = time.Minute
)

// newKeeper makes a keeper that begins, once it is started, with epoch 0, where readers begin
// most often.
func newKeeper(plan *shard.Plan, epochs int, c shard.KeepConfig, readHere int64, l *Ledger, log *slog.Logger) *keeper {
	k := &keeper{
		window: readHere / 2, bytes: plan.KeepBytes(), needs: plan.KeepMemory(c),
		choose: func(epoch int, w shard.Workspace) (*shard.Keep, error) { return plan.KeepIn(epoch, c, w) },
		busy:   func() bool { return false }, pause: firstPause,
		ledger: l, log: log,
		epochs: map[int]*keptEpoch{}, wake: make(chan struct{}, 1), closing: make(chan struct{}),
	}
	k.last.Store(int64(epochs) - 1)
	k.most = int(max(leastPlans, min(mostPlans, l.limit/planShare/k.bytes)))
	k.known.Store(&map[int]*keptEpoch{})
	k.want(0)
	return k
}

// start lets choices be computed.
func (k *keeper) start() {
	if k != nil {
		k.wait.Go(k.run)
	}
}

// Keep says whether a sample that is read in an epoch is kept for the next. It never waits: known
// is false where that was not computed yet.
func (k *keeper) Keep(epoch int, id int64) (keep, known bool) {
	if int64(epoch) >= k.last.Load() {
		return false, true // nobody reads on from the last
	}
	e := (*k.known.Load())[epoch]
	if e == nil {
		e = k.want(epoch)
	}
	e.used.Store(k.asked.Add(1))
	if !e.read.Load() && e.read.CompareAndSwap(false, true) {
		k.want(epoch)
		k.want(epoch + 1)
	}
	chosen := e.keep.Load()
	return chosen != nil && chosen.Kept(id), chosen != nil
}

// want asks for the choice of an epoch.
func (k *keeper) want(epoch int) *keptEpoch {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.epochs[epoch]
	if e == nil {
		e = &keptEpoch{epoch: epoch}
		e.used.Store(k.asked.Load())
		if int64(epoch) >= k.last.Load() || k.closed {
			return e
		}
		if len(k.epochs)-k.held >= mostWanted {
			delete(k.epochs, k.leastUsed(false).epoch)
		}
		k.epochs[epoch] = e
		k.publish()
	}
	k.demands++
	e.demand = k.demands
	select {
	case k.wake <- struct{}{}:
	default:
	}
	return e
}

// publish shows what changed to those who ask. k.mu is held.
func (k *keeper) publish() {
	known := maps.Clone(k.epochs)
	k.known.Store(&known)
}

// leastUsed is the epoch that was asked about least recently, of those whose choice is there, or
// of those that are waited for. k.mu is held.
func (k *keeper) leastUsed(there bool) (least *keptEpoch) {
	for _, e := range k.epochs {
		if (e.keep.Load() != nil) == there && (least == nil || e.used.Load() < least.used.Load()) {
			least = e
		}
	}
	return least
}

// next picks what to compute: what somebody reads, the newest demand first; then what is about to
// be read. Nothing is picked that has no room.
func (k *keeper) next() (best *keptEpoch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.epochs {
		if e.keep.Load() != nil {
			continue
		}
		if best == nil || e.read.Load() && !best.read.Load() || e.read.Load() == best.read.Load() && e.demand > best.demand {
			best = e
		}
	}
	if best == nil || k.closed {
		return nil
	}
	if k.held >= k.most {
		old := k.leastUsed(true)
		if k.inUse(old) {
			k.say(best, "as many epochs are being read as plans of the cache are held")
			return nil
		}
		k.drop(old)
	}
	if k.ledger.excess() > -k.needs/2 { // it would surely be refused
		k.say(best, "there is too little memory to plan what the cache keeps")
		return nil
	}
	k.working = newWorkspace(k)
	return best
}

// say tells once why nothing is kept of an epoch for now.
func (k *keeper) say(e *keptEpoch, why string) {
	if !e.said {
		e.said = true
		k.log.Debug("nothing is kept of an epoch for now: "+why, "epoch", e.epoch, "plans", k.held, "bytes", k.needs)
	}
}

// inUse says whether somebody reads an epoch, or did a short while ago.
func (k *keeper) inUse(e *keptEpoch) bool { return k.asked.Load()-e.used.Load() < k.window }

// dropIdle forgets the choices that are not in use. k.mu is held.
func (k *keeper) dropIdle() {
	for e := k.leastUsed(true); e != nil && !k.inUse(e); e = k.leastUsed(true) {
		k.drop(e)
	}
}

// drop forgets a choice. Those who have it still may use it. k.mu is held.
func (k *keeper) drop(e *keptEpoch) {
	delete(k.epochs, e.epoch)
	k.held--
	k.publish()
	k.ledger.release(useIndex, k.bytes)
}

// run computes choices until the keeper closes.
func (k *keeper) run() {
	for pause := k.pause; ; {
		wake, again := k.wake, (<-chan time.Time)(nil)
		if e := k.next(); e == nil {
			if k.stats().Wanted > 0 { // and not to be had
				again = time.After(k.pause)
			}
		} else if k.compute(e) {
			pause = k.pause
			continue
		} else {
			wake, again = nil, time.After(pause)
			pause = min(2*pause, lastPause)
		}
		select {
		case <-k.closing:
			return
		case <-again:
		case <-wake:
		}
	}
}

// compute makes a choice in k.working, and reports whether there was enough memory, so that another
// may be tried at once.
func (k *keeper) compute(e *keptEpoch) bool {
	w, began := k.working, time.Now()
	keep, err := (*shard.Keep)(nil), error(errNoPlanMemory)
	if k.ledger.reserve(useIndex, k.bytes) {
		if keep, err = k.choose(e.epoch, w); err != nil {
			k.ledger.release(useIndex, k.bytes)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.working = nil
	close(w.done)
	switch {
	case err == nil && !k.closed && k.epochs[e.epoch] == e:
		e.keep.Store(keep)
		k.held++
		all, _ := keep.Count()
		k.log.Debug("planned what the cache keeps", "epoch", e.epoch, "samples", all, "bytes", w.peak, "seconds", time.Since(began).Seconds())
		return true
	case err == nil: // nobody wants it any more
		k.ledger.release(useIndex, k.bytes)
		return true
	case errors.Is(err, errNoPlanMemory):
		k.dropIdle()
		k.say(e, "there is too little memory to plan what the cache keeps")
		return false
	case errors.Is(err, errGaveWay):
		k.say(e, "planning gave way for a batch that somebody waits for")
		return false
	case errors.Is(err, errPlanningEnds):
		return false
	}
	k.log.Error("cannot plan what the cache keeps", "epoch", e.epoch, "reason", err)
	k.last.Store(0) // nor of any other epoch
	delete(k.epochs, e.epoch)
	k.publish()
	return false
}

// giveWay ends what is being computed, for the sake of a batch that was refused memory, and returns
// how many bytes that has freed. What was computed in vain is tried again later.
func (k *keeper) giveWay() (freed int64) {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	w := k.working
	k.mu.Unlock()
	if w == nil {
		return 0
	}
	freed = w.held.Load() + k.bytes
	w.end(errGaveWay)
	<-w.done
	return freed
}

// PlanStats counts the plans of the cache, each of one epoch.
type PlanStats struct {
	Held      int64 `json:"held"`
	Computing int64 `json:"computing"`
	Wanted    int64 `json:"wanted"` // and not there, the one that is being computed included
	Bytes     int64 `json:"bytes"`  // that all of these take now
}

func (k *keeper) stats() (s PlanStats) {
	if k == nil {
		return s
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s = PlanStats{Held: int64(k.held), Wanted: int64(len(k.epochs) - k.held), Bytes: int64(k.held) * k.bytes}
	if k.working != nil {
		s.Computing, s.Bytes = 1, s.Bytes+k.working.held.Load()
	}
	return s
}

// close ends what is being computed, and gives everything back. Those who ask later are told that
// nothing is known.
func (k *keeper) close() {
	if k == nil {
		return
	}
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return
	}
	k.closed = true
	close(k.closing)
	if k.working != nil {
		k.working.end(errPlanningEnds)
	}
	k.mu.Unlock()
	k.wait.Wait()

	k.mu.Lock()
	defer k.mu.Unlock()
	k.ledger.release(useIndex, int64(k.held)*k.bytes)
	k.epochs, k.held = map[int]*keptEpoch{}, 0
	k.publish()
}

// wanted says whether somebody wants a batch now.
func (e *Engine) wanted(b *batch) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return b.refs > 0
}

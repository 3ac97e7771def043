package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/batchfs/batchfs/internal/keep"
)

// A keeper tells the cache which samples to keep from one epoch to the next, and the local cache
// which of the others to keep. No caller ever waits for it; the answer may be that this is not
// known yet. A plan covers one epoch. A single goroutine computes one plan at a time, when its
// epoch or the epoch before is first read. All readers of an epoch share its plan, which is held
// while there is room: the plan that was used least recently goes first, and a plan in use is never
// dropped. If more epochs are being read than plans can be held, the remaining epochs keep nothing,
// so that plans are not computed over and over.
//
// A nil keeper plans nothing.
type keeper struct {
	window int64 // in calls of Keep: a plan that was not asked about for this many calls is not in use
	most   int   // maximum number of plans held
	shares shares
	planCost
	choose func(epoch int, w keep.Workspace) (*plan, error)
	busy   func() bool // an Open is waiting for a batch
	pause  time.Duration
	ledger *ledger
	log    *slog.Logger

	mu     sync.Mutex
	last   int                // nothing is kept of this epoch or any later one
	epochs map[int]*keptEpoch // requested or computed
	held   int                // number of epochs whose plan has been computed
	asked  int64              // number of calls of Keep
	planning
}

// planning computes plans in the background.
type planning struct {
	working *workspace    // memory of the plan being computed
	wake    chan struct{} // a plan was requested
	wait    sync.WaitGroup
	ctx     context.Context // ends when the keeper closes
	cancel  context.CancelCauseFunc
}

// A planCost is what a plan takes, in bytes.
type planCost struct {
	bytes int64 // once it is made
	needs int64 // while it is computed, approximately and at most
}

// A keptEpoch is the plan for one epoch, requested or computed.
type keptEpoch struct {
	epoch int
	plan  *plan // nil until computed
	used  int64 // keeper.asked at its last use or request
	read  bool  // the epoch is being read
	said  bool  // the log says that its plan is unavailable for now
}

const (
	mostWanted = 32 // most plans that are requested and not computed; the least recently used is forgotten first
	leastPlans = 2  // fewest computed plans to hold: enough for one reader and its late partners
	mostPlans  = 64 // most computed plans to hold
	planShare  = 16 // computed plans take the memory limit divided by planShare at most
	// After a plan was refused memory, it is tried again after firstPause, and then after
	// twice as long each time, up to lastPause.
	firstPause = 250 * time.Millisecond
	lastPause  = time.Minute
)

// newKeeper creates a keeper that, once started, begins with epoch 0, where most readers
// begin.
func newKeeper(c Budget, s shares, l *ledger, busy func() bool) *keeper {
	o := c.Options
	readHere := o.Samples * int64(o.LocalShards()) / int64(o.Shards)
	k := &keeper{
		window: readHere / 2 * s.choices(), shares: s, planCost: planCost{s.bytes(c), s.needs(c)},
		busy: busy, pause: firstPause, ledger: l, log: o.Logger,
		last: o.Epochs - 1, epochs: map[int]*keptEpoch{}, planning: planning{wake: make(chan struct{}, 1)},
	}
	k.ctx, k.cancel = context.WithCancelCause(context.Background())
	k.choose = func(epoch int, w keep.Workspace) (*plan, error) {
		return s.choose(c, epoch, k.computed(epoch-1).memory, w)
	}
	k.most = int(max(leastPlans, min(mostPlans, l.limit/planShare/k.bytes)))
	k.want(0)
	return k
}

func (k *keeper) start() {
	if k != nil {
		k.wait.Go(k.run)
	}
}

// Keep reports whether a sample that is read in an epoch is kept in memory for the next. known is
// false if the epoch's plan has not been computed yet.
func (k *keeper) Keep(epoch int, id int64) (keep, known bool) {
	p, last := k.planOf(epoch)
	return p != nil && p.memory.Kept(id), p != nil || last
}

// OnDisk is Keep for the local cache. It knows nothing about the last epoch, so that what is on the
// disk stays there for a later mount.
func (k *keeper) OnDisk(epoch int, id int64) (keep, known bool) {
	p, _ := k.planOf(epoch)
	return p != nil && p.disk.Kept(id), p != nil
}

// Packs says whether a sample that is read in an epoch is packed while it is kept in memory for the
// next, and in which mix. A sample that the epoch after that should find on the disk is not packed,
// as its file is needed for that.
func (k *keeper) Packs(epoch int, id int64) (in mix, packs bool) {
	if k == nil {
		return mix{}, false
	}
	now := k.computed(epoch)
	if packs = now.memory.Packs(id) && !k.computed(epoch+1).disk.Kept(id); packs {
		in = now.mix
	}
	return in, packs
}

// computed returns the plan of an epoch. It is an empty plan if none has been computed yet.
func (k *keeper) computed(epoch int) plan {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.epochs[epoch]; e != nil && e.plan != nil {
		return *e.plan
	}
	return plan{}
}

// planOf returns the plan of an epoch that is being read. It is nil if it has not been computed
// yet, or if no epoch follows.
func (k *keeper) planOf(epoch int) (p *plan, last bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if epoch >= k.last {
		return nil, true
	}
	k.asked++
	e := k.epochs[epoch]
	if e == nil || !e.read {
		e = k.want(epoch)
		e.read = true
		k.want(epoch + 1)
	}
	e.used = k.asked
	return e.plan, false
}

// want requests the plan of an epoch. k.mu is held.
func (k *keeper) want(epoch int) *keptEpoch {
	e := k.epochs[epoch]
	if e == nil {
		e = &keptEpoch{epoch: epoch}
		if epoch >= k.last || k.ctx.Err() != nil {
			return e
		}
		if len(k.epochs)-k.held >= mostWanted {
			delete(k.epochs, k.leastUsed(false).epoch)
		}
		k.epochs[epoch] = e
	}
	e.used = k.asked
	select {
	case k.wake <- struct{}{}:
	default:
	}
	return e
}

// leastUsed is the epoch used least recently, among those that were computed or, if there is false,
// among the others. k.mu is held.
func (k *keeper) leastUsed(there bool) (least *keptEpoch) {
	for _, e := range k.epochs {
		if (e.plan != nil) == there && (least == nil || e.used < least.used) {
			least = e
		}
	}
	return least
}

// next picks the plan to compute: first epochs that are being read, then those that will be read
// soon, the latest first. It returns nil if there is no room.
func (k *keeper) next() (best *keptEpoch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.epochs {
		if e.plan == nil && (best == nil || e.read && !best.read || e.read == best.read && e.used > best.used) {
			best = e
		}
	}
	if best == nil || k.ctx.Err() != nil {
		return nil
	}
	if k.held >= k.most {
		old := k.leastUsed(true)
		if k.inUse(old) {
			k.say(best, "more epochs are being read than plans of the cache can be held")
			return nil
		}
		k.drop(old)
	}
	if k.ledger.excess() > -k.needs/2 { // a reservation would certainly be refused
		k.say(best, tooLittleMemory)
		return nil
	}
	k.working = newWorkspace(k)
	return best
}

const tooLittleMemory = "there is too little memory to plan what the cache keeps"

// say logs, once per epoch, why nothing of it is kept for now.
func (k *keeper) say(e *keptEpoch, why string) {
	if !e.said {
		e.said = true
		k.log.Debug("nothing is kept of an epoch for now: "+why, "epoch", e.epoch, "plans", k.held, "bytes", k.needs)
	}
}

// inUse reports whether an epoch was read recently.
func (k *keeper) inUse(e *keptEpoch) bool { return k.asked-e.used < k.window }

// drop forgets a plan. k.mu is held.
func (k *keeper) drop(e *keptEpoch) {
	delete(k.epochs, e.epoch)
	k.held--
	k.ledger.release(useIndex, k.bytes)
}

func (k *keeper) run() {
	for pause := k.pause; ; {
		wake, again := k.wake, (<-chan time.Time)(nil)
		switch e := k.next(); {
		case e != nil && k.compute(e):
			pause = k.pause
			continue
		case e != nil:
			wake, again = nil, time.After(pause)
			pause = min(2*pause, lastPause)
		case k.stats().Wanted > 0: // requests that cannot be served now
			again = time.After(k.pause)
		}
		select {
		case <-k.ctx.Done():
			return
		case <-again:
		case <-wake:
		}
	}
}

// compute makes a plan in k.working, and reports whether another may be tried at once.
func (k *keeper) compute(e *keptEpoch) bool {
	w, began := k.working, time.Now()
	made, err := (*plan)(nil), error(errNoPlanMemory)
	if k.ledger.reserve(useIndex, k.bytes) {
		if made, err = k.choose(e.epoch, w); err != nil {
			k.ledger.release(useIndex, k.bytes)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.working = nil
	w.end(nil)
	close(w.done)
	switch {
	case err == nil && k.ctx.Err() == nil && k.epochs[e.epoch] == e:
		e.plan = made
		k.held++
		k.log.Debug("planned what the cache keeps", "epoch", e.epoch, "samples", made.memory.Count(), "packed", made.mix.packed, "on disk", made.disk.Count(), "seconds", time.Since(began).Seconds())
	case err == nil: // no longer wanted
		k.ledger.release(useIndex, k.bytes)
	case errors.Is(err, errNoPlanMemory):
		for old := k.leastUsed(true); old != nil && !k.inUse(old); old = k.leastUsed(true) {
			k.drop(old)
		}
		k.say(e, tooLittleMemory)
	case errors.Is(err, errGaveWay):
		k.say(e, "planning gave way for a batch that somebody waits for")
	case !errors.Is(err, errPlanningEnds):
		k.log.Error("cannot plan what the cache keeps", "epoch", e.epoch, "reason", err)
		k.last = 0 // do not plan other epochs either
		delete(k.epochs, e.epoch)
	}
	return err == nil
}

// giveWay aborts the plan being computed in favour of a batch that was refused memory, and
// returns how many bytes that freed. The plan is tried again later.
func (k *keeper) giveWay() (freed int64) {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	w := k.working
	k.mu.Unlock()
	if w != nil {
		freed = w.held.Load() + k.bytes
		w.end(errGaveWay)
		<-w.done
	}
	return freed
}

// PlanStats counts the cache's plans, one per epoch.
type PlanStats struct {
	Held      int64 `json:"held"`
	Computing int64 `json:"computing"`
	Wanted    int64 `json:"wanted"` // requested but not computed, including the one being computed
	Bytes     int64 `json:"bytes"`  // taken by all of these now
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

// close aborts the plan being computed and gives all memory back. Later calls of Keep
// report that nothing is known.
func (k *keeper) close() {
	if k == nil {
		return
	}
	k.cancel(errPlanningEnds)
	k.wait.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ledger.release(useIndex, int64(k.held)*k.bytes)
	clear(k.epochs)
	k.held = 0
}

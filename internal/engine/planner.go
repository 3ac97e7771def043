package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchfs/batchfs/internal/keep"
)

// A planner tells the cache which samples to keep from one epoch to the next, and the local cache
// which of the others to keep. No caller ever waits for it; the answer may be that this is not
// known yet. A plan covers one epoch. A single goroutine computes one plan at a time, when its
// epoch or the epoch before is first read. All readers of an epoch share its plan, which is held
// while there is room: the plan that was used least recently goes first, and a plan in use is never
// dropped. If more epochs are being read than plans can be held, the remaining epochs keep nothing,
// so that plans are not computed over and over.
//
// A nil planner plans nothing.
type planner struct {
	window int64 // in calls of Keep: a plan that was not asked about for this many calls is not in use
	most   int   // maximum number of plans held
	shares shares
	planCost
	look   func() // asks the disk, which may hang, what choose has to know of it
	choose func(epoch int, w keep.Workspace) (*plan, error)
	busy   func() bool // an Open is waiting for a batch
	pause  time.Duration
	ledger *ledger
	log    *slog.Logger

	mu     sync.Mutex
	last   int                // nothing is kept of this epoch or any later one
	epochs map[int]*epochPlan // requested or computed
	plans  int                // number of epochs whose plan has been computed
	calls  int64              // number of calls of Keep
	planning
}

// planning computes plans in the background.
type planning struct {
	looking atomic.Bool   // look has been called
	working *workspace    // memory of the plan being computed
	wake    chan struct{} // a plan was requested
	wait    sync.WaitGroup
	ctx     context.Context // ends when the planner closes
	cancel  context.CancelCauseFunc
}

// A planCost is what a plan takes, in bytes.
type planCost struct {
	bytes int64 // once it is made
	needs int64 // while it is computed, approximately and at most
}

// An epochPlan is the plan for one epoch, requested or computed.
type epochPlan struct {
	epoch  int
	plan   *plan // nil until computed
	used   int64 // planner.calls at its last use or request
	read   bool  // the epoch is being read
	logged bool  // the log says that its plan is unavailable for now
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

// newPlanner creates a planner that, once started, begins with epoch 0, where most readers
// begin.
func newPlanner(c Budget, s shares, l *ledger, busy func() bool) *planner {
	o := c.Options
	readHere := o.Samples * int64(o.LocalShards()) / int64(o.Shards)
	k := &planner{
		window: readHere / 2 * s.choices(), shares: s, planCost: planCost{s.bytes(c), s.needs(c)},
		busy: busy, pause: firstPause, ledger: l, log: o.Logger,
		last: o.Epochs - 1, epochs: map[int]*epochPlan{}, planning: planning{wake: make(chan struct{}, 1)},
	}
	k.ctx, k.cancel = context.WithCancelCause(context.Background())
	now := s
	k.look = func() { now = s.atPresent(c) }
	k.choose = func(epoch int, w keep.Workspace) (*plan, error) {
		return now.choose(c, epoch, k.computed(epoch-1).memory, w)
	}
	k.most = int(max(leastPlans, min(mostPlans, l.limit/planShare/k.bytes)))
	k.request(0)
	return k
}

func (k *planner) start() {
	if k != nil {
		k.wait.Go(k.run)
	}
}

// Keep reports whether a sample that is read in an epoch is kept in memory for the next. known is
// false if the epoch's plan has not been computed yet.
func (k *planner) Keep(epoch int, id int64) (keep, known bool) {
	p, last := k.planOf(epoch)
	return p != nil && p.memory.Kept(id), p != nil || last
}

// OnDisk is Keep for the local cache. It knows nothing about the last epoch, so that what is on the
// disk stays there for a later mount.
func (k *planner) OnDisk(epoch int, id int64) (keep, known bool) {
	p, _ := k.planOf(epoch)
	return p != nil && p.disk.Kept(id), p != nil
}

// ShouldPack says whether a sample that is read in an epoch is packed while it is kept in memory
// for the next, and in which mix. A sample that the epoch after that should find on the disk is not
// packed, as its file is needed for that.
func (k *planner) ShouldPack(epoch int, id int64) (in mix, packs bool) {
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
func (k *planner) computed(epoch int) plan {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.epochs[epoch]; e != nil && e.plan != nil {
		return *e.plan
	}
	return plan{}
}

// planOf returns the plan of an epoch that is being read. It is nil if it has not been computed
// yet, or if no epoch follows.
func (k *planner) planOf(epoch int) (p *plan, last bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if epoch >= k.last {
		return nil, true
	}
	k.calls++
	e := k.epochs[epoch]
	if e == nil || !e.read {
		e = k.request(epoch)
		e.read = true
		k.request(epoch + 1)
	}
	e.used = k.calls
	return e.plan, false
}

// request requests the plan of an epoch. k.mu is held.
func (k *planner) request(epoch int) *epochPlan {
	e := k.epochs[epoch]
	if e == nil {
		e = &epochPlan{epoch: epoch}
		if epoch >= k.last || k.ctx.Err() != nil {
			return e
		}
		if len(k.epochs)-k.plans >= mostWanted {
			delete(k.epochs, k.leastUsed(false).epoch)
		}
		k.epochs[epoch] = e
	}
	e.used = k.calls
	select {
	case k.wake <- struct{}{}:
	default:
	}
	return e
}

// leastUsed is the epoch used least recently, among those that were computed or, if there is false,
// among the others. k.mu is held.
func (k *planner) leastUsed(there bool) (least *epochPlan) {
	for _, e := range k.epochs {
		if (e.plan != nil) == there && (least == nil || e.used < least.used) {
			least = e
		}
	}
	return least
}

// nextToPlan picks the plan to compute: first epochs that are being read, then those that will be
// read soon, the latest first. It returns nil if there is no room.
func (k *planner) nextToPlan() (best *epochPlan) {
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
	if k.plans >= k.most {
		old := k.leastUsed(true)
		if k.inUse(old) {
			k.logOnce(best, "more epochs are being read than plans of the cache can be held")
			return nil
		}
		k.drop(old)
	}
	if k.ledger.excess() > -k.needs/2 { // a reservation would certainly be refused
		k.logOnce(best, tooLittleMemory)
		return nil
	}
	return best
}

const tooLittleMemory = "there is too little memory to plan what the cache keeps"

// logOnce logs, once per epoch, why nothing of it is kept for now.
func (k *planner) logOnce(e *epochPlan, why string) {
	if !e.logged {
		e.logged = true
		k.log.Debug("nothing is kept of an epoch for now: "+why, "epoch", e.epoch, "plans", k.plans, "bytes", k.needs)
	}
}

// inUse reports whether an epoch was read recently.
func (k *planner) inUse(e *epochPlan) bool { return k.calls-e.used < k.window }

// drop forgets a plan. k.mu is held.
func (k *planner) drop(e *epochPlan) {
	delete(k.epochs, e.epoch)
	k.plans--
	k.ledger.release(useIndex, k.bytes)
}

func (k *planner) run() {
	for pause := k.pause; ; {
		wake, again := k.wake, (<-chan time.Time)(nil)
		switch e := k.nextToPlan(); {
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

// compute makes a plan in k.working, and reports whether another may be tried at once. The disk is
// asked before there is any memory to give back: nothing waits for it.
func (k *planner) compute(e *epochPlan) bool {
	k.looking.Store(true)
	k.look()
	k.looking.Store(false)
	w, began := newWorkspace(k), time.Now()
	k.mu.Lock()
	k.working = w
	k.mu.Unlock()
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
		k.plans++
		k.log.Debug("planned what the cache keeps", "epoch", e.epoch, "samples", made.memory.Count(), "packed", made.mix.packed, "on disk", made.disk.Count(), "seconds", time.Since(began).Seconds())
	case err == nil: // no longer wanted
		k.ledger.release(useIndex, k.bytes)
	case errors.Is(err, errNoPlanMemory):
		for old := k.leastUsed(true); old != nil && !k.inUse(old); old = k.leastUsed(true) {
			k.drop(old)
		}
		k.logOnce(e, tooLittleMemory)
	case errors.Is(err, errGaveWay):
		k.logOnce(e, "planning gave way for a batch that somebody waits for")
	case !errors.Is(err, errPlanningEnds):
		k.log.Error("cannot plan what the cache keeps", "epoch", e.epoch, "reason", err)
		k.last = 0 // do not plan other epochs either
		delete(k.epochs, e.epoch)
	}
	return err == nil
}

// giveWay aborts the plan being computed in favour of a batch that was refused memory, and
// returns how many bytes that freed. The plan is tried again later.
func (k *planner) giveWay() (freed int64) {
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

func (k *planner) stats() (s PlanStats) {
	if k == nil {
		return s
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s = PlanStats{Held: int64(k.plans), Wanted: int64(len(k.epochs) - k.plans), Bytes: int64(k.plans) * k.bytes}
	if k.working != nil {
		s.Computing, s.Bytes = 1, s.Bytes+k.working.held.Load()
	}
	return s
}

// isLooking reports whether the disk of the local cache has not answered yet.
func (k *planner) isLooking() bool { return k != nil && k.looking.Load() }

// close aborts the plan being computed and gives all memory back. Later calls of Keep
// report that nothing is known. It waits for the disk, if that is being asked.
func (k *planner) close() {
	if k == nil {
		return
	}
	k.cancel(errPlanningEnds)
	k.wait.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ledger.release(useIndex, int64(k.plans)*k.bytes)
	clear(k.epochs)
	k.plans = 0
}

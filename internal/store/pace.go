package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// A pace limits requests: always how many are in flight and, once the store has throttled some,
// also how many are sent a second. The rate is learnt much as TCP learns a bandwidth (AIMD), except
// that it does not fall by a fixed factor: a store that throttles shows exactly how many requests
// it accepts, so the limit falls to that, and rises slowly until some are refused again. A store
// that never throttles has no limit on its rate.
type pace struct {
	slots   chan struct{} // one for each request that may be sent now
	earned  atomic.Int64  // moreAfter for each slot there is
	limiter *rate.Limiter
	turn    chan struct{} // held by the one call that waits for the limiter, so that all feel a change

	mu       sync.Mutex
	round    uint32 // of the limit; answers to requests of other rounds say nothing about it
	began    time.Time
	good     int // answers in this round, since then
	refused  int
	growth   float64   // of the limit, after a round in which all were accepted
	row      int       // answers in a row that were refusals
	bySecond bool      // there were many: the store counts by the second
	rest     time.Time // nothing is sent before
	last     time.Time // some were refused
	accepted [2]int    // in this second and in the one before
	second   int64
}

const (
	firstSlots = 64 // until there are as many as there may be,
	moreAfter  = 4  // answers add another one

	leastFirst     = 50.  // requests a second that are tried first once some were refused
	mostRefused    = 0.02 // of the requests: a store that refuses more has too many
	fewRefused     = 2    // say nothing
	manyRefused    = 12   // end a round
	leastUsed      = 0.8  // of the limit: only then it rises
	slowGrowth     = 0.01
	mostGrowth     = 0.25
	firstGrowth    = 0.5 // as long as nothing is known but that some were refused
	wholeRound     = time.Second
	firstRound     = 100 * time.Millisecond // at least
	enoughAtFirst  = 20                     // answers
	enough         = 100
	restAfter      = 12 // refusals in a row: the store counts by the second, and this one is used up
	firstRest      = 10 * time.Millisecond
	forgottenAfter = time.Minute
)

func newPace(most int) *pace {
	p := &pace{
		slots: make(chan struct{}, most), turn: make(chan struct{}, 1), limiter: rate.NewLimiter(rate.Inf, 1),
	}
	first := min(most, firstSlots)
	p.earned.Store(int64(moreAfter * first))
	for range first {
		p.slots <- struct{}{}
	}
	return p
}

// begin waits until a request may be sent. The caller ends it with the round that it gets.
func (p *pace) begin(ctx context.Context) (round uint32, err error) {
	select {
	case <-p.slots:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if p.limit() > 0 {
		select {
		case p.turn <- struct{}{}:
			next := p.limiter.Reserve()
			if err = sleep(ctx, max(next.Delay(), time.Until(p.restUntil()))); err != nil {
				next.Cancel()
			}
			<-p.turn
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			p.slots <- struct{}{}
			return 0, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.round, nil
}

// limit is how many requests a second are sent; 0: any number.
func (p *pace) limit() float64 {
	if limit := p.limiter.Limit(); limit != rate.Inf {
		return float64(limit)
	}
	return 0
}

func (p *pace) restUntil() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rest
}

// end notes what came of a request: it was accepted, or refused because there were too many, or
// neither.
func (p *pace) end(round uint32, accepted, refused bool) {
	p.slots <- struct{}{}
	if accepted || refused {
		p.heard(round, refused, time.Now())
	}
	if accepted && p.earned.Load() < int64(moreAfter*cap(p.slots)) {
		if n := p.earned.Add(1); n%moreAfter == 0 && n <= int64(moreAfter*cap(p.slots)) {
			p.slots <- struct{}{}
		}
	}
}

// heard takes an answer to a request of a round: accepted, or refused because there were too many.
func (p *pace) heard(round uint32, refused bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if second := now.Unix(); second != p.second {
		if p.accepted[1] = 0; second == p.second+1 {
			p.accepted[1] = p.accepted[0]
		}
		p.accepted[0], p.second = 0, second
	}
	if !refused {
		p.accepted[0]++
	} else {
		p.last = now
	}
	switch {
	case p.limit() == 0 && refused:
		p.growth = firstGrowth
		p.rest = now.Add(firstRest)
		p.set(max(leastFirst, float64(max(p.accepted[0], p.accepted[1]))))
		return
	case p.limit() == 0 || round != p.round:
		return
	case now.Sub(p.last) > forgottenAfter:
		p.set(float64(rate.Inf))
		return
	case p.began.IsZero():
		p.began = now // a rate is of what comes after the first one
		if !refused {
			return
		}
	}
	if refused {
		p.refused++
		if p.row++; p.row >= restAfter {
			p.bySecond = true
			p.rest = now.Add(firstRest << min(p.row-restAfter, 3))
		}
		if p.row >= restAfter && p.good < restAfter { // the round began when that one was used up; the limit is what it had
			p.began, p.good, p.refused, p.growth = time.Time{}, 0, 0, slowGrowth
			return
		}
	} else {
		p.good++
		p.row = 0
	}
	p.judge(now.Sub(p.began))
}

// judge sets the limit anew if the round has been long enough to tell how many requests the store
// accepts.
func (p *pace) judge(lasted time.Duration) {
	n, isFirst := p.good+p.refused, p.growth == firstGrowth
	few := int(max(fewRefused, mostRefused*float64(n)))
	if isFirst {
		few *= 2
	}
	switch {
	case lasted >= wholeRound:
	case lasted < firstRound:
		return
	case isFirst && p.refused <= few && n >= enoughAtFirst:
	case p.bySecond || p.refused < manyRefused && (p.refused > 0 || n < enough):
		return
	}
	limit, accepted := float64(p.limiter.Limit()), float64(p.good)/lasted.Seconds()
	switch {
	case p.refused > few:
		p.growth = slowGrowth
		p.set(max(accepted, limit/2, 1))
	case accepted >= leastUsed*limit:
		p.set(limit * (1 + p.growth))
		if p.refused > 0 && !isFirst {
			p.growth = slowGrowth
		} else if !isFirst {
			p.growth = min(2*p.growth, mostGrowth)
		}
	default:
		p.began, p.good, p.refused = time.Time{}, 0, 0
	}
}

// learnAnew has the limit rise as fast as at first, since what was refused in an outage says
// nothing about it.
func (p *pace) learnAnew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit() > 0 {
		p.growth, p.bySecond = firstGrowth, false
		p.set(float64(p.limiter.Limit()))
	}
}

// set begins a round with another limit. The lock is held.
func (p *pace) set(limit float64) {
	p.limiter.SetLimit(rate.Limit(limit))
	p.limiter.SetBurst(1 + int(min(limit, 1e5)/20))
	p.round++
	p.began, p.good, p.refused, p.row = time.Time{}, 0, 0, 0
}

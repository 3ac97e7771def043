package store

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A pace limits requests: always how many are in flight and, once the store has refused some, also
// how many are sent per second. The rate is learnt much as TCP learns a bandwidth (AIMD), except
// that it does not fall by a fixed factor: a store that refuses requests shows exactly how many it
// accepts, so the limit falls to that, and rises slowly until some are refused again. Answers are
// counted by seconds of the clock, as some stores count requests. A store that refuses nothing has
// no limit on its rate.
type pace struct {
	slots   chan struct{} // one for each request that may be sent now
	limiter *rate.Limiter
	turn    chan struct{} // held by the one call that waits for the limiter, so that all calls notice a change

	mu       sync.Mutex
	earned   int       // answers accepted, towards another slot
	round    uint32    // of the limit; answers to requests of other rounds say nothing about it
	began    time.Time // the round
	first    time.Time // answer in it, which has taken its time; 0: none has come
	growth   float64   // of the limit, after a round in which all were accepted
	accepted int       // answers in this round
	refused  int
	row      int       // answers in a row that were refusals
	rest     time.Time // nothing is sent before this time
	last     time.Time // time of the last refusal
}

const (
	firstSlots = 64 // slots at first; as many as allowed later
	moreAfter  = 4  // accepted answers that add a slot

	leastFirst     = 50.  // requests per second to try after the first refusals
	mostRefused    = 0.02 // share of refused requests above which the limit is too high
	fewRefused     = 2    // so few refusals say nothing
	manyRefused    = 12   // so many refusals end a round
	leastUsed      = 0.8  // share of the limit that must be used before it rises
	slowGrowth     = 0.01
	moreGrowth     = 1.5
	mostGrowth     = 0.25
	firstGrowth    = 0.5 // while nothing else is known about the limit
	firstRound     = 100 * time.Millisecond
	enoughAtFirst  = 10 // answers
	restAfter      = 12 // refusals in a row: this second's requests are used up
	firstRest      = 10 * time.Millisecond
	forgottenAfter = time.Minute
)

func newPace(most int) *pace {
	p := &pace{
		slots: make(chan struct{}, most), turn: make(chan struct{}, 1), limiter: rate.NewLimiter(rate.Inf, 1),
	}
	for range min(most, firstSlots) {
		p.slots <- struct{}{}
	}
	p.earned = moreAfter * len(p.slots)
	return p
}

// begin waits until a request may be sent. The caller passes the returned round to end.
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

// end notes the outcome of a request: it was accepted, or refused because there were too many, or
// neither.
func (p *pace) end(round uint32, accepted, refused bool) {
	p.slots <- struct{}{}
	p.mu.Lock()
	defer p.mu.Unlock()
	if accepted && p.earned < moreAfter*cap(p.slots) {
		if p.earned++; p.earned%moreAfter == 0 {
			p.slots <- struct{}{}
		}
	}
	if accepted || refused {
		p.heard(round, refused, time.Now())
	}
}

// heard notes an answer to a request of a round: accepted, or refused because there were too many.
// The caller holds the lock.
func (p *pace) heard(round uint32, refused bool, now time.Time) {
	limited := p.limit() > 0
	if refused {
		p.last = now
	}
	switch {
	case !limited && refused:
		p.growth, p.rest = firstGrowth, now.Add(firstRest)
		p.set(max(leastFirst, float64(p.accepted)), now)
		return
	case limited && round != p.round:
		return
	case limited && now.Sub(p.last) > forgottenAfter:
		p.set(float64(rate.Inf), now)
		return
	}
	if p.first.IsZero() {
		p.first = now
	}
	p.judge(now)
	if round != p.round {
		return
	}
	if !refused {
		p.accepted++
		p.row = 0
		return
	}
	p.refused++
	if p.row++; p.row >= restAfter {
		p.rest = now.Add(firstRest << min(p.row-restAfter, 3))
	}
}

// judge ends the round if it tells how many requests the store accepts, and sets the limit anew:
// after a whole second of the clock; or half of one, if many were refused; or at first, when little
// is known, soon. A round of a part of a second tells nothing, as that may have been used up. Rates
// are of the time since the first answer to a request of the round.
func (p *pace) judge(now time.Time) {
	end, limit := now.Truncate(time.Second), p.limit()
	turned := !end.Equal(p.began.Truncate(time.Second))
	few := max(fewRefused, int(mostRefused*float64(p.accepted+p.refused)))
	first, many := limit > 0 && p.growth == firstGrowth, p.refused >= max(manyRefused, few+1)
	from := p.began
	if p.first.After(from) {
		from = p.first
	}
	switch lasted := now.Sub(from); {
	case first && (p.refused == 0 || many && !turned):
		if lasted < firstRound || p.accepted < enoughAtFirst {
			return
		}
		end = now
	case many && p.began.Equal(end) && lasted >= time.Second/2:
		end = now
	case !turned:
		return
	case end.Sub(p.began) < time.Second, end.Sub(from) < time.Second/2:
		limit = 0
	}
	accepted, refused := float64(p.accepted)/end.Sub(from).Seconds(), p.refused
	p.began, p.accepted, p.refused = end, 0, 0
	switch {
	case limit == 0:
	case refused > few:
		p.set(max(accepted, limit/2, 1), end)
	case accepted >= leastUsed*limit:
		p.set(limit*(1+p.growth), end)
		if !first {
			p.growth = min(moreGrowth*p.growth, mostGrowth)
		}
	}
	if refused > 0 {
		p.growth = slowGrowth
	}
}

// learnAnew makes the limit rise as fast as at first, since refusals during an outage say nothing
// about it.
func (p *pace) learnAnew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit() > 0 {
		p.growth = firstGrowth
		p.set(p.limit(), time.Now())
	}
}

// set begins a round with another limit. The lock is held.
func (p *pace) set(limit float64, now time.Time) {
	p.limiter.SetLimit(rate.Limit(limit))
	p.limiter.SetBurst(1 + int(min(limit, 1e5)/20))
	p.round++
	p.began, p.first, p.accepted, p.refused, p.row = now, time.Time{}, 0, 0, 0
}

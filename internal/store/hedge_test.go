package store

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAnswerBesideTheHedge: an answer that comes at the moment a second request is due is neither
// late nor lost.
func TestAnswerBesideTheHedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(Options{MaxRequests: 1, Timeout: time.Minute, Wait: -1})
		c.hedges = newBudget(0) // so that none is sent
		for range 200 {
			a := c.attempt(t.Context(), c.timeout)
			a.mu.Lock()
			a.hedge = true
			a.timer.Reset(time.Millisecond)
			time.Sleep(time.Millisecond) // fire is called, and waits for the lock
			a.mu.Unlock()
			first := a.decide(0)
			synctest.Wait()
			if stalled := a.end(); !first || stalled {
				t.Fatalf("the first answer is used: %v; no data came in time: %v", first, stalled)
			}
		}
	})
}

// TestStallAfterTheHedge: data that does not come after an answer is noticed, whether or not a
// second request was due then.
func TestStallAfterTheHedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(Options{MaxRequests: 1, Timeout: time.Minute, Wait: -1})
		c.hedges = newBudget(0)
		for range 200 {
			a := c.attempt(t.Context(), c.timeout)
			a.mu.Lock()
			a.hedge = true
			a.timer.Reset(time.Millisecond)
			time.Sleep(time.Millisecond)
			a.mu.Unlock()
			a.decide(0)
			time.Sleep(2 * time.Minute)
			if !a.end() {
				t.Fatal("waits longer than the timeout")
			}
		}
	})
}

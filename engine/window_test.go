package engine

import "testing"

// TestWindow: there is room for one more sample on its way for each time that a drawer has nothing
// to do, and for one less where many find too many others ready.
func TestWindow(t *testing.T) {
	w, drawers, n := newWindow(2, 40, false), 2, 0
	w.size = 20
	for w.isOpen(n) {
		n++
	}
	if n != w.size {
		t.Errorf("%d loads at once, of %d", n, w.size)
	}
	if w.isOpen(n - 1) {
		t.Error("a load begins alone")
	}
	if !w.isOpen(n - 4) {
		t.Error("no load begins where there is room for some")
	}
	for range 100 * manyExcess {
		w.found(w.enough*drawers, drawers)
	}
	if w.size != 20 {
		t.Errorf("%d samples on their way where as many are ready as should be", w.size)
	}
	for range 10 * manyExcess {
		w.found(w.enough*drawers+1, drawers)
	}
	if w.size != 10 {
		t.Errorf("%d samples on their way after %d too many", w.size, 10*manyExcess)
	}
	for range 100 * manyExcess {
		w.found(w.enough*drawers+1, drawers)
	}
	if w.size != w.least {
		t.Errorf("%d samples on their way in the end", w.size)
	}
}

// TestReadsThatWait: drawers read themselves where that does not make them wait, and leave it to
// others where it does.
func TestReadsThatWait(t *testing.T) {
	own, d := newOwnReads(false), &drawer{}
	rounds := func(n int) (reads int) {
		for range n {
			if d.rounds++; own.isDue(d, 0) {
				reads++
				own.waitedFor(d, 0)
			}
		}
		return reads
	}
	if rounds(20 * soonProbing); own.slow || rounds(100) != 100 {
		t.Error("drawers do not read for themselves, though nothing makes them wait")
	}
	for range 20 {
		own.waitedFor(d, 2*worthWaiting)
	}
	if !own.slow {
		t.Error("drawers wait for their own reads")
	}
	own.waitedFor(d, 1000*worthWaiting)
	if n := rounds(1000 * probing); n != 0 {
		t.Errorf("%d reads in the time in which one takes most of it", n)
	}
}

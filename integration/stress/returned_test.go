package stress

import (
	"fmt"
	"slices"
	"time"
)

// returned waits until the daemon has given everything back that readers and disturbances
// took. Nobody reads any more; what is made ahead may still be under way.
func (r *round) returned() {
	deadline := time.Now().Add(patience / 2)
	for {
		kept := r.kept()
		if kept == "" {
			return
		}
		if time.Now().After(deadline) {
			r.find("when nobody reads any more, %s", kept)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// kept says what the daemon still has and should not.
func (r *round) kept() string {
	s, err := r.daemon.stats()
	if err != nil {
		return err.Error()
	}
	r.checkFigures(s)
	open, err := r.daemon.openFiles()
	if err != nil {
		return err.Error()
	}
	extra := slices.Clone(open)
	for _, name := range r.daemon.atRest {
		if i := slices.Index(extra, name); i >= 0 {
			extra = slices.Delete(extra, i, i+1)
		}
	}
	memory := r.daemon.batchMemory()
	switch {
	case s.Batches.Waiting != 0:
		return fmt.Sprintf("%d opens wait", s.Batches.Waiting)
	case s.Batches.Making != 0:
		return fmt.Sprintf("%d batches are being made", s.Batches.Making)
	case len(extra) > 0:
		return fmt.Sprintf("the daemon has open: %v", extra)
	case r.daemon.leases() > 0:
		return "the daemon holds leases"
	case memory > s.Memory.Batches:
		return fmt.Sprintf("batches take %d bytes, and %d are accounted for", memory, s.Memory.Batches)
	}
	return ""
}

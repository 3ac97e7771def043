package stress

import (
	"fmt"
	"time"
)

// keptFor waits until an idle daemon keeps nothing it should not; prefetching may still be
// in progress. It returns what is left after most, when everything should be gone.
func (d *daemon) keptFor(most time.Duration) string {
	for deadline := time.Now().Add(most); ; time.Sleep(20 * time.Millisecond) {
		kept := d.kept()
		if kept == "" || time.Now().After(deadline) {
			return kept
		}
	}
}

// kept describes what the daemon still holds and should not.
func (d *daemon) kept() string {
	s, err := d.stats()
	if err != nil {
		return err.Error()
	}
	reserved, err := d.reserved()
	if err != nil {
		return err.Error()
	}
	open, err := d.Leaked()
	if err != nil {
		return err.Error()
	}
	memory := d.batchMemory()
	switch {
	case s.Batches.Waiting != 0:
		return fmt.Sprintf("%d opens wait", s.Batches.Waiting)
	case s.Batches.Making != 0:
		return fmt.Sprintf("%d batches are being made", s.Batches.Making)
	case s.Memory.Used > s.Memory.Limit:
		return fmt.Sprintf("of %d bytes, %d are used", s.Memory.Limit, s.Memory.Used)
	case len(open) > 0:
		return fmt.Sprintf("the daemon has open: %v", open)
	case d.leases() > 0:
		return "the daemon holds leases"
	case reserved["batch"] != s.Memory.Batches, reserved["cache"] != s.Memory.Cache,
		reserved["input"]+reserved["scratch"] != s.Memory.Scratch: // what is charged for longer was forgotten
		return fmt.Sprintf("buffers hold %v, and %+v is charged", reserved, s.Memory)
	case memory > s.Memory.Batches:
		return fmt.Sprintf("batches take %d bytes, and %d are accounted for", memory, s.Memory.Batches)
	}
	return ""
}

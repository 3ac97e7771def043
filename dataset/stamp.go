package dataset

import "time"

// stamp is the modification time that a directory or manifest had when it was read.
type stamp struct {
	Time int64 `json:"mtime_ns"`
	// Unsettled means that it was modified so recently that another change could leave the same
	// time. Such a stamp proves nothing.
	Unsettled bool `json:"unsettled"`
}

// newStamp judges a modification time that was seen at now, before anything was read. Kernels
// stamp with a clock that ticks every 1 to 10 ms; a time of whole seconds suggests a file
// system with a resolution of one or two seconds.
func newStamp(mtime int64, now time.Time) stamp {
	grain := 20 * time.Millisecond
	if mtime%int64(time.Second) == 0 {
		grain = 2100 * time.Millisecond
	}
	return stamp{Time: mtime, Unsettled: mtime > now.Add(-grain).UnixNano()}
}

// proves says whether finding mtime again means that nothing changed.
func (s stamp) proves(mtime int64) bool { return !s.Unsettled && s.Time == mtime }

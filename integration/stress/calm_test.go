package stress

import (
	"time"

	"github.com/batchfs/batchfs/layout"
)

// calm reads everything after all disturbances have ended. Every batch must open with the
// bytes of the undisturbed dataset, in every form, if not at once then soon.
func (r *round) calm() {
	if r.failed() || !r.daemon.Running() {
		return
	}
	r.note("calm")
	reader, err := startReader(r.file("brief.json"))
	if err != nil {
		r.find("%v", err)
		return
	}
	defer reader.End()
	for _, x := range r.oracle.Batches {
		for _, form := range layout.Forms() {
			if x.Victim < 0 && form != layout.NPY && r.random.IntN(8) > 0 {
				continue // a sample of the others suffices
			}
			if form == layout.JSON && (x.Victim >= 0 || x.Bad) {
				continue // it contains the reason why a file is bad
			}
			r.calmly(reader, wish{Key: x.Key, Form: form})
			if r.failed() {
				return
			}
		}
	}
}

// calmly reads a batch until it is right. A batch prefetched during a disturbance may be
// served once more.
func (r *round) calmly(reader *reader, w wish) {
	const tries = 200
	for try := 1; ; try++ {
		got, err := reader.read([]wish{w})
		if err != nil {
			r.find("%v", err)
			r.daemon.Dump()
			return
		}
		if r.oracle.right(got[0]) {
			return
		}
		r.note("  %v", &got[0])
		if try == tries {
			r.find("when nothing is wrong any more, after %d tries: %v", tries, &got[0])
			return
		}
		r.weather.add(0, retries, 1)
		// Another batch is opened, so that a kept one can be dropped.
		other := r.oracle.Batches[r.random.IntN(len(r.oracle.Batches))].Key
		other.Shard = w.Key.Shard
		_, _ = reader.read([]wish{{Key: other, Form: layout.NPY}})
		time.Sleep(20 * time.Millisecond)
	}
}

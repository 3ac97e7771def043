package fusefs

import (
	"encoding/json"

	"github.com/batchfs/batchfs/engine"
)

// document is the current content of a file that is not a batch.
func (f *filesystem) document(n node) []byte {
	switch n.kind {
	case datasetDoc:
		return f.dataset
	case classesDoc:
		return f.classes
	case epochDoc:
		return f.src.EpochJSON(n.key.Shard, n.key.Epoch)
	case configDoc:
		return f.options.Config
	case statsDoc:
		return statsJSON(f.stats())
	case metricsDoc:
		return metrics(f.stats(), f.files.refused())
	case memoryDoc:
		return f.src.MemoryJSON()
	case errorsDoc:
		return f.src.Errors()
	}
	return nil
}

// stats are the engine's, plus what only the mount knows.
func (f *filesystem) stats() engine.Stats {
	s := f.src.Stats()
	s.ReadPath = f.path
	s.FUSE = engine.FUSEStats{Opens: f.counters.opens.Load(), Reads: f.counters.reads.Load()}
	return s
}

// statsJSON is stats.json: one line.
func statsJSON(s engine.Stats) []byte {
	text, err := json.Marshal(s)
	if err != nil { // a rate that is not a number
		return []byte("{}\n")
	}
	return append(text, '\n')
}

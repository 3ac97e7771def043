package fusefs

import (
	"encoding/json"
	"strings"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
	"github.com/batchfs/batchfs/shard"
)

// Stats is stats.json: the engine's figures, and what only the mount knows.
type Stats struct {
	ReadPath string    `json:"read_path"`
	FUSE     FUSEStats `json:"fuse"`
	engine.Stats
}

// FUSEStats counts the kernel's requests, except those for files below .batchfs.
type FUSEStats struct {
	Opens int64 `json:"opens"`
	Reads int64 `json:"reads"`
}

// contents are the files that are not batches.
var contents = map[kind]func(f *filesystem, k engine.Key) []byte{
	datasetDoc: func(f *filesystem, _ engine.Key) []byte { return f.dataset },
	classesDoc: func(f *filesystem, _ engine.Key) []byte { return f.classes },
	configDoc:  func(f *filesystem, _ engine.Key) []byte { return f.options.Config },
	statsDoc:   func(f *filesystem, _ engine.Key) []byte { return document(f.stats()) },
	metricsDoc: func(f *filesystem, _ engine.Key) []byte { return metrics(f.stats(), f.files.refused.Load()) },
	memoryDoc:  func(f *filesystem, _ engine.Key) []byte { return memoryJSON(f.src.Stats().Buffers) },
	errorsDoc:  func(f *filesystem, _ engine.Key) []byte { return errorLines(f.src.Errors()) },
	epochDoc:   func(f *filesystem, k engine.Key) []byte { return epochJSON(f.catalog, k.Shard, k.Epoch) },
}

// document is the current content of a file that is not a batch.
func (f *filesystem) document(n node) []byte { return contents[n.kind](f, n.key) }

func (f *filesystem) stats() Stats {
	return Stats{
		ReadPath: f.path, Stats: f.src.Stats(),
		FUSE: FUSEStats{Opens: f.opens.Load(), Reads: f.reads.Load()},
	}
}

// document is v as JSON with a newline.
func document(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil { // a rate that is not a number
		return []byte("{}\n")
	}
	return append(text, '\n')
}

// datasetJSON describes the dataset and the settings that the bytes depend on.
func datasetJSON(c *engine.Catalog) []byte {
	o := &c.Options
	var height, width any // null: depends on the images of each batch
	if o.Transform.Height > 0 {
		height, width = o.Transform.Height, o.Transform.Width
	}
	shape := []any{o.BatchSize, height, width, o.Decoding.Color.Channels()}
	if o.Layout == layout.NCHW {
		shape = []any{o.BatchSize, o.Decoding.Color.Channels(), height, width}
	}
	return document(struct {
		Samples     int            `json:"samples"`
		Classes     int            `json:"classes"`
		Formats     map[string]int `json:"formats"`
		Layout      string         `json:"layout"`
		DType       string         `json:"dtype"`
		Shape       []any          `json:"shape"`
		Seed        uint64         `json:"seed"`
		Order       string         `json:"order"`
		Decoder     string         `json:"decoder"`
		Transform   string         `json:"transform"`
		Fingerprint string         `json:"fingerprint"`
		Settings    map[string]any `json:"settings"`
	}{c.Dataset.Len(), len(c.Dataset.Classes()), c.Dataset.Report().Formats, o.Layout.String(), o.DType.String(), shape,
		o.Seed, shard.OrderVersion, decode.Version(), resample.Version, c.Fingerprint, c.Settings()})
}

// epochJSON describes what a shard reads in an epoch.
func epochJSON(c *engine.Catalog, s, epoch int) []byte {
	lo, hi := c.Plan.Range(s, epoch)
	total, valid := c.Plan.Samples(s, epoch)
	return document(struct {
		Shard   int      `json:"shard"`
		Epoch   int      `json:"epoch"`
		Batches int      `json:"batches"`
		Samples int64    `json:"samples"`
		Valid   int64    `json:"valid"`
		Range   [2]int64 `json:"range"`
		Seed    uint64   `json:"seed"`
	}{s, epoch, c.Plan.Batches(s, epoch), total, valid, [2]int64{lo, hi}, c.Options.Seed})
}

// memoryJSON describes the buffers, using the terms of DALI's memory statistics.
func memoryJSON(buffers []pinned.BufferStats) []byte {
	return document(map[string][]pinned.BufferStats{"buffers": buffers})
}

// errorLines is errors.jsonl: one line per bad file, in the order of discovery.
func errorLines(list []engine.BadSample) []byte {
	var lines []byte
	for _, bad := range list {
		lines = append(lines, document(struct {
			engine.BadSample
			Bytes string `json:"path_bytes,omitempty"` // of a path that is not UTF-8
		}{bad, dataset.PathBytes(bad.Path)})...)
	}
	return lines
}

// classesTxt is one class name per line, in label order; nil without classes. A name that
// contains a control character or a backslash is escaped like a JSON string, without the
// quotes. So line k is always class k, and a line with a backslash is always JSON while one
// without is literal. Bytes that are not UTF-8 stay as they are.
func classesTxt(names []string) []byte {
	var text []byte
	for _, name := range names {
		odd := strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '\\' })
		for _, c := range []byte(name) {
			if !odd || c >= ' ' && c != '"' && c != '\\' {
				text = append(text, c)
				continue
			}
			quoted, _ := json.Marshal(string(c)) // strings always encode
			text = append(text, quoted[1:len(quoted)-1]...)
		}
		text = append(text, '\n')
	}
	return text
}

package fusefs

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/layout"
)

// Stats is stats.json: the engine's figures, and those that only the mount knows.
type Stats struct {
	ReadPath string    `json:"read_path"`
	FUSE     fuseStats `json:"fuse"`
	engine.Stats
}

// fuseStats counts the kernel's requests, except those for files below .batchfs.
type fuseStats struct {
	Opens int64 `json:"opens"`
	Reads int64 `json:"reads"`
}

// contents are the current contents of the files that are not batches.
var contents = map[kind]func(f *filesystem, k engine.Key) []byte{
	datasetDoc: func(f *filesystem, _ engine.Key) []byte { return f.dataset },
	classesDoc: func(f *filesystem, _ engine.Key) []byte { return f.classes },
	configDoc:  func(f *filesystem, _ engine.Key) []byte { return f.options.Config },
	statsDoc:   func(f *filesystem, _ engine.Key) []byte { return document(f.stats()) },
	metricsDoc: func(f *filesystem, _ engine.Key) []byte { return metrics(f.stats(), f.files.refused.Load()) },
	// In the terms of DALI's memory statistics.
	memoryDoc: func(f *filesystem, _ engine.Key) []byte { return object("buffers", f.src.Stats().Buffers) },
	errorsDoc: func(f *filesystem, _ engine.Key) []byte { return errorLines(f.src.Errors()) },
	readerDoc: func(*filesystem, engine.Key) []byte { return reader },
	epochDoc:  func(f *filesystem, k engine.Key) []byte { return epochJSON(f.catalog, k.Shard, k.Epoch) },
}

// reader is the Python module that hands batches on the GPU to frameworks.
//
//go:embed batchfs_cuda.py
var reader []byte

func (f *filesystem) document(n node) []byte { return contents[n.kind](f, n.key) }

func (f *filesystem) stats() Stats {
	return Stats{
		ReadPath: f.path, Stats: f.src.Stats(),
		FUSE: fuseStats{Opens: f.opens.Load(), Reads: f.reads.Load()},
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

// object is a JSON object of alternating keys and values, with a newline.
func object(pairs ...any) []byte {
	text := []byte("{")
	for i := 0; i < len(pairs); i += 2 {
		text = fmt.Appendf(text, "%q:%s,", pairs[i], bytes.TrimSpace(document(pairs[i+1])))
	}
	return append(text[:len(text)-1], "}\n"...)
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
	pairs := []any{"samples", c.Dataset.Len(), "classes", len(c.Dataset.Classes), "formats", c.Dataset.Report.Formats,
		"layout", o.Layout.String(), "dtype", o.DType.String(), "shape", shape, "seed", o.Seed, "order", c.Plan.Version(),
		"decoder", c.Decoder(), "transform", resample.Version, "fingerprint", c.Fingerprint, "settings", c.Settings()}
	has := c.Options.Extent()
	if forms := has.Forms(); forms != nil {
		var names []string
		for _, f := range forms {
			names = append(names, has.Names().Ext(f))
		}
		pairs = append(pairs, "targets", names)
	}
	if o.Targets != nil && o.Targets.Classes != nil {
		pairs = append(pairs, "box_classes", o.Targets.Classes)
	}
	if o.Masks != nil && o.Masks.Names != nil {
		pairs = append(pairs, "mask_classes", o.Masks.Names)
	}
	return object(pairs...)
}

// epochJSON describes what a shard reads in an epoch.
func epochJSON(c *engine.Catalog, s, epoch int) []byte {
	lo, hi := c.Plan.Range(s, epoch)
	total, valid := c.Plan.Samples(s, epoch)
	return object("shard", s, "epoch", epoch, "batches", c.Plan.Batches(s, epoch), "samples", total, "valid", valid,
		"range", [2]int64{lo, hi}, "seed", c.Options.Seed)
}

// errorLines is errors.jsonl: one line per bad file, in the order of discovery.
func errorLines(list []engine.BadSample) []byte {
	var lines []byte
	for _, bad := range list {
		lines = append(lines, document(struct {
			engine.BadSample
			Bytes string `json:"path_bytes,omitempty"` // for a path that is not UTF-8
		}{bad, dataset.PathBytes(bad.Path)})...)
	}
	return lines
}

// Small forms are rendered from a batch's description. Their sizes are known beforehand: the .json
// is padded with spaces to the longest that a document of its batch can be.

// RenderSmall renders a small form of a batch that c describes as d.
func RenderSmall(c *engine.Catalog, d catalog.Description, f layout.Form) ([]byte, error) {
	return renderSmall(c, d, f, longestPath(c.Dataset))
}

func renderSmall(c *engine.Catalog, d catalog.Description, f layout.Form, longest int) ([]byte, error) {
	switch {
	case f == layout.Text:
		return c.Options.Targets.TextOf(d)
	case f.IsArray():
		return c.ArrayOffsets(d.Key, f)
	case f.IsTarget():
		rows, err := c.Options.Targets.RowsOf(d)
		if err != nil {
			return nil, err
		}
		return layout.AppendNPY(nil, f, c.Options.SpecIn(d.Spec, d.Key, f), layout.Meta{Rows: rows}), nil
	case f != layout.JSON:
		return layout.AppendNPY(nil, f, d.Spec, d.Meta()), nil
	}
	doc := batchDocument{
		Shard: d.Key.Shard, Epoch: d.Key.Epoch, Batch: d.Key.Batch, Shape: d.Spec.Shape(), DType: d.Spec.DType.String(),
		Layout: d.Spec.Order.String(), Seed: c.Options.Seed, Valid: d.Valid, Samples: make([]sampleDocument, len(d.Samples)),
	}
	for i, s := range d.Samples {
		path := c.Dataset.Path(int(s.ID))
		doc.Samples[i] = sampleDocument{
			ID: s.ID, Path: path, Bytes: dataset.PathBytes(path), Label: s.Label, Height: s.Height, Width: s.Width,
			Crop: s.Crop, Flip: s.Flip, Status: s.Status.String(), Reason: shortened(s.Reason, reasonLength),
		}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return layout.Pad(text, int(batchDocumentSize(len(d.Samples), longest)))
}

type batchDocument struct {
	Shard   int              `json:"shard"`
	Epoch   int              `json:"epoch"`
	Batch   int              `json:"batch"`
	Shape   [4]int           `json:"shape"`
	DType   string           `json:"dtype"`
	Layout  string           `json:"layout"`
	Seed    uint64           `json:"seed"`
	Valid   int              `json:"valid"`
	Samples []sampleDocument `json:"samples"`
}

type sampleDocument struct {
	ID     int64      `json:"id"`
	Path   string     `json:"path"`
	Bytes  string     `json:"path_bytes,omitempty"` // for a path that is not UTF-8
	Label  int64      `json:"label"`
	Height int32      `json:"height"` // of the valid pixels
	Width  int32      `json:"width"`
	Crop   [4]float64 `json:"crop"` // the part of the upright image that they show: y, x, height, width
	Flip   bool       `json:"flip"`
	Status string     `json:"status"`
	Reason string     `json:"reason,omitempty"` // at most reasonLength long
}

// batchDocumentSize is the length of the .json of a batch of n slots: the most it can take,
// with the longest numbers and the longest path of the dataset.
func batchDocumentSize(n, longest int) int64 {
	const head, sample = 512, 256 // digits, keys and punctuation, with a margin
	return int64(n)*int64(sample+longest+len(`,"reason":`)+reasonLength) + head
}

// reasonLength is the longest that a reason may be in a batch's document, as a JSON string.
const reasonLength = 160

// shortened cuts off the end of a text, so that it takes at most most bytes as a JSON string.
func shortened(text string, most int) string {
	length := func(s string) int {
		quoted, _ := json.Marshal(s) // strings always encode
		return len(quoted)
	}
	const cut = "..."
	whole := text[:min(len(text), most)]
	for s := whole; ; whole = strings.ToValidUTF8(whole[:len(whole)-1], "") {
		if len(whole) < len(text) {
			s = whole + cut
		}
		if length(s) <= most {
			return s
		}
	}
}

// longestPath is the length of the longest path of a dataset, in a document.
func longestPath(ds *dataset.Dataset) (longest int) {
	for i := range ds.Len() {
		longest = max(longest, pathLength(ds.Path(i)))
	}
	return longest
}

// pathLength is the length of a path in a document: as a JSON string including quotes, plus
// its raw bytes if it is not UTF-8.
func pathLength(s string) int {
	if !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' || r > '~' || r == '"' || r == '\\' || r == '<' || r == '>' || r == '&'
	}) { // like nearly all paths
		return len(s) + 2
	}
	text, _ := json.Marshal(s) // strings always encode
	if bytes := dataset.PathBytes(s); bytes != "" {
		return len(text) + len(`,"path_bytes":""`) + len(bytes)
	}
	return len(text)
}

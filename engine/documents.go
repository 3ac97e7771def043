package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// Small returns a batch in one of its small forms (labels, ids, sizes, json). The result is
// exactly Size bytes; the caller may keep it but must not modify it. It comes from the plan
// and the index, without decoding. Only if bad samples are replaced or zeroed does it wait
// for the pixels, because the two must agree.
func (e *Engine) Small(ctx context.Context, k Key, f layout.Form) ([]byte, error) {
	if !e.Exists(k) || f.Large() {
		return nil, fmt.Errorf("%w: %s.%s", ErrNotExist, k, f.Ext())
	}
	name := e.documentID(k, f)
	if doc, ok := e.documents.Get(name); ok {
		return doc, nil
	}
	cleared := e.cleared.Load()
	d, err := e.describe(ctx, k)
	if err != nil {
		return nil, err
	}
	doc, err := e.render(d, f)
	if err != nil {
		return nil, err
	}
	// Replacements change with the files they replace, and what was learned about a file
	// since may have cleared this document, too.
	if !d.standIns && e.cleared.Load() == cleared {
		e.documents.Set(name, doc, int64(len(doc)))
	}
	return doc, nil
}

// clearDocuments forgets all rendered documents, as something was learned about a file.
func (e *Engine) clearDocuments() {
	e.cleared.Add(1)
	e.documents.Clear()
}

// documentID numbers the small documents of all batches.
func (e *Engine) documentID(k Key, f layout.Form) uint64 {
	batch := (uint64(k.Shard)*uint64(e.opts.Epochs)+uint64(k.Epoch))*uint64(e.maxBatches) + uint64(k.Batch)
	return batch*uint64(len(layout.Forms())) + uint64(f)
}

// A description is all metadata of a batch.
type description struct {
	key      Key
	spec     layout.Spec
	valid    int
	outcomes []outcome
	standIns bool // some outcomes are replaced or zeroed samples
}

func (e *Engine) describe(ctx context.Context, k Key) (description, error) {
	if e.opts.OnError == Fail {
		return e.planned(k), nil
	}
	b, err := e.ready(ctx, k, e.usualForm(k.Shard))
	if err != nil {
		return description{}, err
	}
	defer e.unref(b, nil)
	return description{k, b.spec.In(e.opts.Layout), b.valid, b.outcomes, b.standIns}, nil
}

// usualForm is the form that readers of the shard opened last.
func (e *Engine) usualForm(shard int) layout.Form {
	e.mu.Lock()
	defer e.mu.Unlock()
	if list := e.streams[shard]; len(list) > 0 {
		return list[len(list)-1].form
	}
	return formOf(e.opts.Layout)
}

// planned describes a batch that either matches the plan and the index exactly, or fails.
func (e *Engine) planned(k Key) description {
	slots, valid := e.plan.Batch(k.Shard, k.Epoch, k.Batch, make([]shard.Slot, 0, e.opts.BatchSize))
	d := description{key: k, spec: e.spec(slots), valid: valid, outcomes: make([]outcome, len(slots))}
	for i, s := range slots {
		h, w := e.indexedSize(s.ID)
		d.outcomes[i] = outcome{id: s.ID}
		if h > 0 {
			d.outcomes[i] = outcomeOf(s.ID, e.transform.Choose(s.Epoch, s.ID, h, w))
		}
		if i >= valid {
			d.outcomes[i].status = statusPadded
		}
	}
	return d
}

func (e *Engine) render(d description, f layout.Form) ([]byte, error) {
	m := e.meta(d.outcomes, d.valid)
	switch f {
	case layout.Labels:
		return layout.AppendLabels(nil, m.Labels), nil
	case layout.IDs:
		return layout.AppendIDs(nil, m.IDs), nil
	case layout.Sizes:
		return layout.AppendSizes(nil, m.Sizes), nil
	}
	doc, err := json.Marshal(e.batchDocument(d, m))
	if err != nil {
		return nil, err
	}
	return layout.Pad(doc, int(e.documentSize(len(d.outcomes))))
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
	Bytes  string     `json:"path_bytes,omitempty"` // of a path that is not UTF-8
	Label  int64      `json:"label"`
	Height int32      `json:"height"` // of the valid pixels
	Width  int32      `json:"width"`
	Crop   [4]float64 `json:"crop"` // the part of the upright image they show: y, x, height, width
	Flip   bool       `json:"flip"`
	Status string     `json:"status"`
}

func (e *Engine) batchDocument(d description, m layout.Meta) batchDocument {
	doc := batchDocument{
		Shard: d.key.Shard, Epoch: d.key.Epoch, Batch: d.key.Batch, Shape: d.spec.Shape(),
		DType: d.spec.DType.String(), Layout: d.spec.Order.String(), Seed: e.opts.Seed, Valid: d.valid,
		Samples: make([]sampleDocument, len(d.outcomes)),
	}
	for i, o := range d.outcomes {
		path := e.ds.Path(int(o.id))
		doc.Samples[i] = sampleDocument{
			ID: o.id, Path: path, Bytes: dataset.PathBytes(path), Label: m.Labels[i], Height: o.height, Width: o.width,
			Crop: o.crop, Flip: o.flip, Status: o.status.String(),
		}
	}
	return doc
}

// documentSize is the maximum length of the description of a batch of n slots, assuming the
// longest numbers and the longest path of the dataset.
func (e *Engine) documentSize(n int) int64 {
	const head, sample = 512, 256 // digits, keys and punctuation, with a margin
	return saturating(n, sample+e.maxPath) + head
}

// pathLength is the length of a path in a document: as a JSON string including quotes, plus
// its raw bytes if it is not UTF-8.
func pathLength(s string) int {
	plain := true // true for nearly all paths
	for i := 0; i < len(s) && plain; i++ {
		c := s[i]
		plain = c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	if plain {
		return len(s) + 2
	}
	n := 6*len(s) + 2
	if text, err := json.Marshal(s); err == nil { // strings always encode
		n = len(text)
	}
	if bytes := dataset.PathBytes(s); bytes != "" {
		n += len(`,"path_bytes":""`) + len(bytes)
	}
	return n
}

// settings are the options that determine the bytes of batches. The fingerprint covers
// them.
func (e *Engine) settings() map[string]any {
	o := e.opts
	settings := map[string]any{
		"shards": o.Shards, "batch_size": o.BatchSize, "shuffle": o.Shuffle, "seed": o.Seed,
		"stick_to_shard": o.StickToShard, "pad_last_batch": o.PadLastBatch, "last_batch": o.LastBatch.String(),
		"epochs": o.Epochs, "resize": o.Resize.String(), "height": o.Height, "width": o.Width, "channels": o.Color.Channels(),
		"crop_area": o.CropArea, "crop_ratio": o.CropRatio, "flip": o.Flip, "pad_multiple": o.PadMultiple,
		"fill": o.Fill, "dtype": o.DType.String(), "mean": o.Normalize.Mean, "std": o.Normalize.Std, "layout": o.Layout.String(),
		"ignore_orientation": o.IgnoreOrientation, "max_pixels": o.MaxPixels, "on_error": o.OnError.String(),
	}
	if o.FullJPEGs { // absent when false, to keep fingerprints from before this setting
		settings["jpeg_scaling"] = false
	}
	return settings
}

// DatasetJSON describes the dataset and the settings that the bytes depend on.
func (e *Engine) DatasetJSON() []byte {
	r := e.ds.Report()
	var height, width any // null: depends on the images of each batch
	if e.opts.Height > 0 {
		height, width = e.opts.Height, e.opts.Width
	}
	shape := []any{e.opts.BatchSize, height, width, e.opts.Color.Channels()}
	if e.opts.Layout == layout.NCHW {
		shape = []any{e.opts.BatchSize, e.opts.Color.Channels(), height, width}
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
	}{e.ds.Len(), len(e.ds.Classes()), r.Formats, e.opts.Layout.String(), e.opts.DType.String(), shape,
		e.opts.Seed, shard.OrderVersion, decode.Version(), resample.Version, e.fingerprint, e.settings()})
}

// EpochJSON describes what a shard reads in an epoch.
func (e *Engine) EpochJSON(s, epoch int) []byte {
	lo, hi := e.plan.Range(s, epoch)
	total, valid := e.plan.Samples(s, epoch)
	return document(struct {
		Shard   int      `json:"shard"`
		Epoch   int      `json:"epoch"`
		Batches int      `json:"batches"`
		Samples int64    `json:"samples"`
		Valid   int64    `json:"valid"`
		Range   [2]int64 `json:"range"`
		Seed    uint64   `json:"seed"`
	}{s, epoch, e.plan.Batches(s, epoch), total, valid, [2]int64{lo, hi}, e.opts.Seed})
}

// ClassesTxt is one class name per line, in label order; nil without classes. A name that
// contains a control character or a backslash is escaped like a JSON string, without the
// quotes. So line k is always class k, and a line with a backslash is always JSON while one
// without is literal. Bytes that are not UTF-8 stay as they are.
func (e *Engine) ClassesTxt() []byte {
	var text []byte
	for _, name := range e.ds.Classes() {
		text = append(appendLine(text, name), '\n')
	}
	return text
}

// appendLine appends a name, escaped so that it fits on one line.
func appendLine(text []byte, name string) []byte {
	if !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '\\' }) {
		return append(text, name...)
	}
	for _, c := range []byte(name) {
		if c >= ' ' && c != '"' && c != '\\' {
			text = append(text, c)
			continue
		}
		quoted, err := json.Marshal(string(c))
		if err != nil { // strings always encode
			continue
		}
		text = append(text, quoted[1:len(quoted)-1]...)
	}
	return text
}

// Errors is the current content of errors.jsonl.
func (e *Engine) Errors() []byte { return e.errors.bytes() }

// document is v as JSON with a newline. The values are structs of plain fields, which
// always encode.
func document(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return []byte("{}\n")
	}
	return append(text, '\n')
}

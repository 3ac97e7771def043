package fusefs

import (
	"encoding/json"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/layout"
)

// Small forms are rendered from a batch's description. Their sizes are known beforehand:
// the .json is padded with spaces to the most that its batch can take.

// RenderSmall renders a small form of a batch that c describes as d.
func RenderSmall(c *engine.Catalog, d engine.Description, f layout.Form) ([]byte, error) {
	return renderSmall(c.Dataset, c.Options.Seed, d, f, longestPath(c.Dataset))
}

func renderSmall(ds *dataset.Dataset, seed uint64, d engine.Description, f layout.Form, longest int) ([]byte, error) {
	if f != layout.JSON {
		return layout.AppendSmall(nil, f, d.Meta()), nil
	}
	doc, err := json.Marshal(newBatchDocument(ds, seed, d))
	if err != nil {
		return nil, err
	}
	return layout.Pad(doc, int(batchDocumentSize(len(d.Samples), longest)))
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

func newBatchDocument(ds *dataset.Dataset, seed uint64, d engine.Description) batchDocument {
	doc := batchDocument{
		Shard: d.Key.Shard, Epoch: d.Key.Epoch, Batch: d.Key.Batch, Shape: d.Spec.Shape(),
		DType: d.Spec.DType.String(), Layout: d.Spec.Order.String(), Seed: seed, Valid: d.Valid,
		Samples: make([]sampleDocument, len(d.Samples)),
	}
	for i, s := range d.Samples {
		path := ds.Path(int(s.ID))
		doc.Samples[i] = sampleDocument{
			ID: s.ID, Path: path, Bytes: dataset.PathBytes(path), Label: s.Label, Height: s.Height, Width: s.Width,
			Crop: s.Crop, Flip: s.Flip, Status: s.Status.String(),
		}
	}
	return doc
}

// batchDocumentSize is the length of the .json of a batch of n slots: the most it can take,
// with the longest numbers and the longest path of the dataset.
func batchDocumentSize(n, longest int) int64 {
	const head, sample = 512, 256 // digits, keys and punctuation, with a margin
	return int64(n)*int64(sample+longest) + head
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

package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// TestConvertedDataset: a converted dataset has the pixels, labels and order of the
// original. Each of its batches has the same mix of raw and encoded samples, to within one.
// The share of raw samples is given, or is the one found to be fastest here.
func TestConvertedDataset(t *testing.T) {
	skipWithoutFUSE(t)
	original := mixedImages(t)
	o := newOracle(t, original, settings{})
	for _, ratio := range []string{"0.4", "0.75", "auto"} {
		t.Run(ratio, func(t *testing.T) {
			if ratio == "auto" && testing.Short() {
				t.Skip("SKIPPED: this run is a short one, and it measures which ratio is best")
			}
			out := filepath.Join(scratch(t), "converted")
			var done struct {
				Samples, Raw, Converted int
				RawRatio                float64 `json:"raw_ratio"`
				BestAsItIs              bool    `json:"best_as_it_is"`
				Unreadable              []any
			}
			text := execute(t, "convert", "--raw-ratio", ratio, "--json", original, out).done(t).out
			if err := json.Unmarshal([]byte(text), &done); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if done.BestAsItIs {
				if _, err := os.Stat(out); ratio != "auto" || err == nil {
					t.Fatalf("%s was made, though the dataset is best as it is: %s", out, text)
				}
				return
			}
			n := o.ds.Len()
			// Samples that were raw before count, and stay raw even if there are more of
			// them.
			least := int(done.RawRatio*float64(n) + 0.5)
			if done.Samples != n || len(done.Unreadable) > 0 || done.Raw < least || done.Raw > max(least, done.Raw-done.Converted) {
				t.Fatalf("of %d samples, %d were to be raw: %s", n, least, text)
			}
			if ratio != "auto" && (done.Converted == 0 || fmt.Sprint(done.RawRatio) != ratio) {
				t.Errorf("nothing was made raw, or not as many as were to be: %s", text)
			}
			c := converted{mountBatchfs(t, out, settings{batch: 8, shards: 2, shuffle: true, seed: 2}.flags()...), o}
			for epoch := range 2 {
				c.sameMix(t, epoch, done.Raw)
			}
		})
	}
}

// A converted dataset is mounted, with its original.
type converted struct {
	*mounted
	original *oracle
}

// sameMix reads an epoch with the given number of raw samples.
func (c converted) sameMix(t testing.TB, epoch, raw int) {
	t.Helper()
	var mix []int // raw samples per full batch
	seen := map[int]bool{}
	for batch, step := range c.lockStep(t, 2, epoch) {
		for shard := range step {
			count, doc := 0, c.batchDoc(t, shard, epoch, batch)
			pixels := c.form(t, shard, epoch, batch, layout.NHWCForm)
			each := len(pixels) / len(doc.Samples)
			for i, s := range doc.Samples[:doc.Valid] {
				if slices.Contains([]string{".bmp", ".ppm", ".pgm"}, strings.ToLower(filepath.Ext(s.Path))) {
					count++
					if !seen[s.ID] {
						raw--
					}
				}
				seen[s.ID] = true
				c.asBefore(t, s, pixels[i*each:][:each], doc.Shape[2])
			}
			if doc.Valid == len(doc.Samples) {
				mix = append(mix, count)
			}
		}
	}
	if least, most := slices.Min(mix), slices.Max(mix); most-least > 1 {
		t.Errorf("epoch %d: batches have %v raw samples", epoch, mix)
	}
	if n := c.original.ds.Len(); len(seen) != n || raw != 0 {
		t.Errorf("epoch %d shows %d samples of %d, and %d raw ones less than there are", epoch, len(seen), n, raw)
	}
}

// batchDoc reads a batch's document.
func (m *mounted) batchDoc(t testing.TB, shard, epoch, batch int) (doc badDoc) {
	t.Helper()
	m.document(t, fmt.Sprintf("shard-%d/epoch-%d/%s.json", shard, epoch, layout.BatchName(batch)), &doc)
	return doc
}

// asBefore compares a slot with the original's picture.
func (c converted) asBefore(t testing.TB, s slotDoc, slot []byte, width int) {
	t.Helper()
	want := c.original.picture(t, int64(s.ID))
	ds := c.original.ds
	if s.Height != want.h || s.Width != want.w || s.Label != ds.Label(s.ID) || filepath.Dir(s.Path) != filepath.Dir(ds.Path(s.ID)) {
		t.Errorf("%+v was %s, %dx%d, of label %d", s, ds.Path(s.ID), want.h, want.w, ds.Label(s.ID))
		return
	}
	row := want.w * 3
	for y := range want.h {
		if err := sameBytes(slot[y*width*3:][:row], want.values[y*row:][:row]); err != nil {
			t.Errorf("%s, which was %s, row %d: %v", s.Path, ds.Path(s.ID), y, err)
			return
		}
	}
}

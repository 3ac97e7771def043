package profile

import (
	"slices"
	"testing"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/shard"
)

// TestThreeForms: with packed images as candidates, too, each form is measured alone, and the
// answer is one of the mixes that the engine ran with.
func TestThreeForms(t *testing.T) {
	for _, exhaustive := range []bool{false, true} {
		ds, o := photos(t, 20, "png"), options(t)
		o.Forms, o.Exhaustive = nil, exhaustive
		o.Storage.Direct = false
		r, err := Run(t.Context(), ds, o)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Forms, []string{"encoded", "packed", "raw"}) || len(r.Steps) > 5 || r.Steps[0].Packed != 1 {
			t.Errorf("%v: %+v", r.Forms, r.Steps)
		}
		if r.Packed.Decode <= 0 || r.Packed.Decode >= r.Encoded.Decode || r.Packed.Bytes <= 0 || r.Packed.Bytes >= r.Raw.Bytes {
			t.Errorf("encoded %+v, packed %+v, raw %+v", r.Encoded, r.Packed, r.Raw)
		}
		alone, answer := 0, false
		for _, run := range r.Runs {
			for f := range shard.Cost(shard.NumCosts) {
				if run.Of(f) == 1 {
					alone++
				}
			}
			answer = answer || apart(run.Shares, r.Shares) < 0.006 // which is rounded
		}
		if alone != shard.NumCosts || !answer || r.Shares.Validate() != nil || exhaustive && len(r.Runs) < 3*tenths {
			t.Errorf("%+v of the runs %+v", r.Shares, r.Runs)
		}
		empty(t, o.Work)
	}
}

// TestNoPackedForm: images that cannot be packed are measured as they are, and if there are no
// others, packed ones are no candidates.
func TestNoPackedForm(t *testing.T) {
	mixed := t.TempDir() + "/mixed"
	if err := gen.Write(t.Context(), gen.Options{Dir: mixed, Images: 60, Kind: gen.Mixed, Classes: 2, Seed: 3}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ds     *dataset.Dataset
		forms  []shard.Cost
		want   []string
		packed bool
	}{
		{open(t, mixed), nil, []string{"encoded", "packed", "raw"}, true},
		{photos(t, 6, "ppm"), []shard.Cost{shard.Packed}, []string{"encoded"}, false},
	} {
		o := options(t)
		o.Forms = c.forms
		p, done := prepared(t, c.ds, o)
		defer done()
		if !slices.Equal(p.result.Forms, c.want) || slices.Contains(p.result.Notes, NoPackedForm) == c.packed {
			t.Errorf("%v, %v", p.result.Forms, p.result.Notes)
		}
		most := p.tenth(tenths).Packed
		if c.packed && (most < 0.3 || most > 0.9) {
			t.Errorf("at most %v are packed", most)
		}
		packed, images := 0, spread(p.images, p.tenth(min(tenths, p.path.last())))
		for k, f := range images {
			if f == shard.Packed {
				packed++
			}
			if p.images[k].files[f].path == "" {
				t.Errorf("image %d has no file as %v", k, f)
			}
		}
		if want := int(most*float64(len(images)) + 0.5); c.packed && packed != want {
			t.Errorf("%d of %d are packed, want %d", packed, len(images), want)
		}
	}
}

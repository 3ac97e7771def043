package annotation

import (
	"context"
	"maps"
	"slices"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/internal/sample"
)

// A Verdict says which samples are good, of what is annotated of them, too: all but those named.
type Verdict struct {
	sample.Verdict
	Masks  int `json:"masks,omitempty"` // files of such
	Arrays int `json:"arrays,omitempty"`
}

// Verify decodes all images of a dataset, and their masks and arrays, and finds what is wrong with
// them, and with other annotations. Of a dataset without annotations, a part can be verified.
// report returns what is told how many files of a kind are done.
func (d *Dataset) Verify(
	ctx context.Context, part dataset.Share, o sample.Options, report func(what string) (progress func(done, total int64)),
) (v Verdict, err error) {
	if err := d.Join(ctx, true); err != nil {
		return v, err
	}
	if d.maskOptions != nil {
		d.checkMasks(&o)
	}
	o.Progress = report("image")
	if v.Verdict, err = sample.Verify(ctx, d.Images, part, o); err != nil {
		return v, err
	}
	for _, id := range slices.Sorted(maps.Keys(d.Condemned)) {
		v.Bad = append(v.Bad, dataset.NewBadFile(d.Images.Path(int(id)), int(id), d.Condemned[id]))
	}
	if d.masks != nil {
		o.Progress = report("mask")
		of, err := sample.VerifyMasks(ctx, d.masks, o)
		if err != nil {
			return v, err
		}
		v.Masks = of.Samples
		v.add(of, d.masks, d.maskOptions.Rows)
	}
	for i, ds := range d.arrays {
		o.Progress = report("array")
		of, err := sample.VerifyArrays(ctx, ds, o)
		if err != nil {
			return v, err
		}
		v.Arrays += of.Samples
		v.add(of, ds, d.ArrayOptions[i].Rows)
	}
	return v, nil
}

// checkMasks condemns the samples whose masks cannot be theirs, and has masks that are in no file
// drawn when images are verified.
func (d *Dataset) checkMasks(o *sample.Options) {
	m := d.maskOptions
	m.Wide = true // nobody has the masks as 8 bits
	o.Also = func(i int, room func(n int) ([]byte, error)) error {
		if m.Rows[i] >= 0 || d.masks != nil {
			return nil
		}
		height, width := m.Size(int64(i))
		to, err := room(height * width)
		if err == nil {
			err = m.Draw(int64(i), to)
		}
		return err
	}
	for i := range d.Images.Len() {
		height, width := d.Images.Size(i, true)
		if d.Condemned[int64(i)] != "" || height == 0 {
			continue
		}
		mask := m.Indexed(int64(i))
		if mask.Row >= 0 && d.masks.Problem(mask.Row) != "" {
			continue // decoding it says so
		}
		if err := m.Check(&mask, height, width, d.Images.Orientation(i), o.Decoding.IgnoreOrientation); err != nil {
			d.Condemned[int64(i)] = err.Error()
		}
	}
}

// add adds what was found of files beside images, which are listed by the numbers of the samples
// that have them; -1: none has.
func (v *Verdict) add(of sample.Verdict, ds *dataset.Dataset, rows []int32) {
	owners := map[string]int{}
	for id, row := range slices.Backward(rows) {
		if row >= 0 {
			owners[ds.Path(int(row))] = id
		}
	}
	for _, list := range [][]dataset.BadFile{of.Bad, of.Unread} {
		for i := range list {
			id, owned := owners[list[i].Path]
			if list[i].ID = id; !owned {
				list[i].ID = -1
			}
		}
	}
	v.Bad, v.Unread = append(v.Bad, of.Bad...), append(v.Unread, of.Unread...)
	v.NoMemory = v.NoMemory || of.NoMemory
}

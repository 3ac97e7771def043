package annotation

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/sample"
)

// A Verdict says which samples of a dataset, or of a part of it, are good, of what is annotated of
// them, too: all but those named.
type Verdict struct {
	Samples  int               `json:"samples"`
	Bad      []dataset.BadFile `json:"bad"`
	Unended  []string          `json:"unended,omitempty"` // archives that may have been cut off between two members
	Unread   []dataset.BadFile `json:"unread"`            // that the machine could not read; they may be good
	NoMemory bool              `json:"-"`                 // for some of those not read
	Masks    int               `json:"masks,omitempty"`   // files of such
	Arrays   int               `json:"arrays,omitempty"`
}

// Verify decodes every image of a dataset once, and its masks and arrays, and finds what is wrong
// with them, and with other annotations. Of a dataset without annotations, a part can be verified:
// what is found in it is kept for JoinVerdicts. It returns ctx's error shortly after ctx ends, even
// if the storage hangs.
func (d *Dataset) Verify(ctx context.Context, part dataset.Share, w Work) (v Verdict, err error) {
	if err := d.Join(ctx, true); err != nil {
		return v, err
	}
	if d.maskOptions != nil {
		d.checkMasks(w.Decoding.IgnoreOrientation)
	}
	v, err = w.verify(ctx, d.Images, "image", part, func(ctx context.Context, r *sample.Reader, i int) error {
		img, err := r.Read(ctx, i, 0)
		if err == nil {
			err = r.Decode(img)
		}
		if err == nil {
			err = d.drawMask(r, i)
		}
		return err
	})
	if err == nil && part.N > 0 {
		err = d.Images.KeepPart(part, "verify", v)
	}
	if err != nil {
		return v, err
	}
	for _, id := range slices.Sorted(maps.Keys(d.Condemned)) {
		v.Bad = append(v.Bad, dataset.NewBadFile(d.Images.Path(int(id)), int(id), d.Condemned[id]))
	}
	if d.masks != nil {
		of, err := w.verify(ctx, d.masks, "mask", dataset.Share{}, func(ctx context.Context, r *sample.Reader, i int) error { return r.ReadValues(ctx, i) })
		if err != nil {
			return v, err
		}
		v.Masks = of.Samples
		v.add(of)
	}
	for _, ds := range d.arrays {
		of, err := w.verifyArrays(ctx, ds)
		if err != nil {
			return v, err
		}
		v.Arrays += of.Samples
		v.add(of)
	}
	return v, nil
}

// verifyArrays verifies arrays, but for those that the index knows to be bad, as their samples are.
func (w *Work) verifyArrays(ctx context.Context, arrays *dataset.Dataset) (Verdict, error) {
	return w.verify(ctx, arrays, "array", dataset.Share{}, func(ctx context.Context, r *sample.Reader, i int) error {
		if arrays.Problem(i) != "" {
			return nil
		}
		data, err := r.Fetch(ctx, i)
		if err == nil {
			_, err = sample.ProbeArray(data, nil, int64(len(data)))
		}
		return err
	})
}

// verify checks the files of a dataset, or of a part of it.
func (w *Work) verify(
	ctx context.Context, ds *dataset.Dataset, kind string, part dataset.Share, check func(ctx context.Context, r *sample.Reader, i int) error,
) (Verdict, error) {
	first, end := part.Span(ds.Len())
	var mu sync.Mutex
	v := Verdict{Samples: end - first, Bad: []dataset.BadFile{}, Unread: []dataset.BadFile{}}
	err := w.each(ctx, ds, kind, first, end, func(r *sample.Reader) visit {
		return func(ctx context.Context, i int) error {
			if err := check(ctx, r, i); err != nil && ctx.Err() == nil {
				mu.Lock()
				defer mu.Unlock()
				v.note(dataset.NewBadFile(ds.Path(i), i, dataset.Reason(err).Error()), err)
			}
			return nil
		}
	})
	if err != nil {
		return Verdict{}, err
	}
	for _, list := range [][]dataset.BadFile{v.Bad, v.Unread} {
		slices.SortFunc(list, func(a, b dataset.BadFile) int { return a.ID - b.ID })
	}
	v.Unended = ds.Report.Unended
	return v, nil
}

// note records a sample that cannot be read, or not be decoded, because of err.
func (v *Verdict) note(bad dataset.BadFile, err error) {
	if fault.Of(err) == fault.File {
		v.Bad = append(v.Bad, bad)
		return
	}
	v.Unread = append(v.Unread, bad)
	v.NoMemory = v.NoMemory || errors.Is(err, sample.ErrMemory) || errors.Is(err, decode.ErrMemory)
}

// JoinVerdicts is the verdict over all parts of a dataset. If one is missing, the error is a
// [dataset.PartsError].
func (d *Dataset) JoinVerdicts() (Verdict, error) {
	v := Verdict{Bad: []dataset.BadFile{}, Unread: []dataset.BadFile{}, Unended: d.Images.Report.Unended}
	err := d.Images.EachPart("verify", func(found []byte) error {
		var part Verdict
		err := json.Unmarshal(found, &part)
		v.Samples, v.Bad, v.Unread = v.Samples+part.Samples, append(v.Bad, part.Bad...), append(v.Unread, part.Unread...)
		return err
	})
	return v, err
}

// drawMask draws the mask of an image, if it has one that is in no file.
func (d *Dataset) drawMask(r *sample.Reader, i int) error {
	m := d.maskOptions
	if m == nil || m.Rows[i] >= 0 || d.masks != nil {
		return nil
	}
	height, width := m.Size(int64(i))
	to, err := r.Output(height * width)
	if err == nil {
		err = m.Draw(int64(i), to)
	}
	return err
}

// checkMasks condemns the samples whose masks cannot be theirs.
func (d *Dataset) checkMasks(ignoreOrientation bool) {
	m := d.maskOptions
	m.Wide = true // nobody has the masks as 8 bits
	for i := range d.Images.Len() {
		height, width := d.Images.Size(i, true)
		if d.Condemned[int64(i)] != "" || height == 0 {
			continue
		}
		mask := m.Indexed(int64(i))
		if mask.Row >= 0 && d.masks.Problem(mask.Row) != "" {
			continue // decoding it says so
		}
		if err := m.Check(&mask, height, width, d.Images.Orientation(i), ignoreOrientation); err != nil {
			d.Condemned[int64(i)] = err.Error()
		}
	}
}

// add adds what was found of files beside images, which have no numbers.
func (v *Verdict) add(of Verdict) {
	for _, list := range [][]dataset.BadFile{of.Bad, of.Unread} {
		for i := range list {
			list[i].ID = -1
		}
	}
	v.Bad, v.Unread = append(v.Bad, of.Bad...), append(v.Unread, of.Unread...)
	v.NoMemory = v.NoMemory || of.NoMemory
}

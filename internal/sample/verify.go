package sample

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/fault"
)

// A Verdict says which samples of a dataset, or of a part of it, are good: all but those named.
type Verdict struct {
	Samples  int               `json:"samples"`
	Bad      []dataset.BadFile `json:"bad"`
	Unended  []string          `json:"unended,omitempty"` // archives that may have been cut off between two members
	Unread   []dataset.BadFile `json:"unread"`            // that the machine could not read; they may be good
	NoMemory bool              `json:"-"`                 // for some of those not read
}

// Verify decodes every sample of a dataset, or of a part of it, once. What it finds in a part is
// kept for JoinVerdicts. It returns ctx's error shortly after ctx ends, even if the storage hangs.
func Verify(ctx context.Context, ds *dataset.Dataset, part dataset.Share, o Options) (Verdict, error) {
	v, err := verify(ctx, ds, part, o, func(ctx context.Context, r *Reader, i int) error {
		img, err := r.Read(ctx, i, 0)
		if err == nil {
			err = r.Decode(img)
		}
		if err == nil && o.Also != nil {
			err = o.Also(i, r.Output)
		}
		return err
	})
	if err == nil && part.N > 0 {
		err = ds.KeepPart(part, "verify", v)
	}
	return v, err
}

// VerifyMasks is Verify for the values of masks, all of them.
func VerifyMasks(ctx context.Context, masks *dataset.Dataset, o Options) (Verdict, error) {
	return verify(ctx, masks, dataset.Share{}, o, func(ctx context.Context, r *Reader, i int) error { return r.readValues(ctx, i) })
}

func verify(ctx context.Context, ds *dataset.Dataset, part dataset.Share, o Options, check func(ctx context.Context, r *Reader, i int) error) (Verdict, error) {
	first, end := part.Span(ds.Len())
	var mu sync.Mutex
	v := Verdict{Samples: end - first, Bad: []dataset.BadFile{}, Unread: []dataset.BadFile{}}
	err := each(ctx, ds, o, first, end, func(r *Reader) look {
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
	v.NoMemory = v.NoMemory || errors.Is(err, ErrMemory) || errors.Is(err, decode.ErrMemory)
}

// JoinVerdicts is the verdict over all parts of a dataset. If one is missing, the error is a
// [dataset.PartsError].
func JoinVerdicts(ds *dataset.Dataset) (Verdict, error) {
	v := Verdict{Bad: []dataset.BadFile{}, Unread: []dataset.BadFile{}, Unended: ds.Report.Unended}
	err := ds.EachPart("verify", func(found []byte) error {
		var part Verdict
		err := json.Unmarshal(found, &part)
		v.Samples, v.Bad, v.Unread = v.Samples+part.Samples, append(v.Bad, part.Bad...), append(v.Unread, part.Unread...)
		return err
	})
	return v, err
}

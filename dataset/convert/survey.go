package convert

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/decode"
)

// survey is what is known about the samples before conversion.
type survey struct {
	ds      *dataset.Dataset
	kinds   []kind
	reasons map[int32]string // why a sample is unreadable
}

// newSurvey sorts the samples into kinds. It examines files whose identity the index does not
// know because a manifest described them.
func newSurvey(ctx context.Context, ds *dataset.Dataset, o Options) (*survey, error) {
	s := &survey{ds: ds, kinds: make([]kind, ds.Len()), reasons: map[int32]string{}}
	missing := make([]error, ds.Len())
	err := each(ctx, o.Workers, ds.Len(), func(int) (func(i int) error, func()) {
		return func(i int) error {
			if reason := ds.Unread(i); reason != "" {
				return &dataset.FileError{Path: ds.Path(i), Err: fmt.Errorf("cannot be read now: %s", reason)}
			}
			if ds.Problem(i) == "" && !ds.Stat(i).Known() {
				_, missing[i] = ds.Check(i)
			}
			if missing[i] != nil && !dataset.OfFile(missing[i]) {
				return missing[i]
			}
			return nil
		}, func() {}
	})
	if err != nil {
		return nil, err
	}
	for i := range s.kinds {
		reason := ds.Problem(i)
		if missing[i] != nil {
			reason = reasonOf(missing[i])
		}
		if reason == "" {
			reason = s.unfit(i, o)
		}
		format, _ := decode.ParseFormat(ds.Format(i))
		switch {
		case format.Raw() && reason == "":
			s.kinds[i] = alreadyRaw
		case reason != "":
			s.kinds[i] = unreadable
			s.reasons[int32(i)] = reason
		}
	}
	return s, nil
}

// unfit says why a sample that seems fine cannot become raw.
func (s *survey) unfit(i int, o Options) string {
	h, w := s.ds.Size(i, o.IgnoreOrientation)
	if n := int64(h) * int64(w); n > o.MaxPixels {
		return decode.ErrTooLarge.Error()
	}
	outH, outW := o.transform().Size(h, w)
	r := newRawFile(o.Format, outH, outW)
	if err := r.fits(); err != nil {
		return err.Error()
	}
	return ""
}

// reasonOf is an error without its path, which the caller prints separately.
func reasonOf(err error) string {
	err = dataset.Reason(err)
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}

// fingerprint covers everything that the index says about the dataset, and its files' sizes and
// times.
func (s *survey) fingerprint() string {
	h := sha256.New()
	w := bufio.NewWriterSize(h, 64<<10)
	io.WriteString(w, "batchfs convert 1\n"+s.ds.Digest()+"\n")
	var b [17]byte
	for i, k := range s.kinds {
		id := s.ds.Stat(i)
		binary.LittleEndian.PutUint64(b[:], uint64(id.Size))
		binary.LittleEndian.PutUint64(b[8:], uint64(id.ModTime))
		b[16] = byte(k)
		w.Write(b[:])
	}
	w.Flush()
	return hex.EncodeToString(h.Sum(nil))
}

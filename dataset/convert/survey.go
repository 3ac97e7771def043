package convert

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"iter"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/parallel"
)

// survey sorts the samples into kinds. It examines files whose identity the index does not know
// because a manifest described them.
func (c *conversion) survey(ctx context.Context) error {
	c.kinds, c.reasons = make([]kind, c.ds.Len()), map[int32]string{}
	return parallel.Each(ctx, c.o.Workers, c.ds.Len(), nil, func(_ context.Context, items iter.Seq[int]) error {
		for i := range items {
			reason, err := c.examine(i)
			switch {
			case err != nil:
				return err
			case reason != "":
				c.spoil(i, reason)
			case sample.IsRaw(c.ds, i):
				c.kinds[i] = alreadyRaw
			}
		}
		return nil
	})
}

// examine says why a sample can only be kept as it is, as far as that is known without reading
// it.
func (c *conversion) examine(i int) (reason string, err error) {
	if reason := c.ds.Unread(i); reason != "" {
		return "", &dataset.FileError{Path: c.ds.Path(i), Err: fmt.Errorf("cannot be read now: %s", reason)}
	}
	if reason := c.ds.Problem(i); reason != "" {
		return reason, nil
	}
	if !c.ds.Stat(i).Known() {
		if _, err := c.ds.Check(i); dataset.OfFile(err) {
			return reasonOf(err), nil
		} else if err != nil {
			return "", err
		}
	}
	h, w := c.ds.Size(i, c.o.IgnoreOrientation)
	switch n := c.o.FileBytes(h, w); {
	case int64(h)*int64(w) > c.o.MaxPixels:
		return decode.ErrTooLarge.Error(), nil
	case c.o.Format == BMP && n > maxBMP:
		return fmt.Sprintf("%d bytes are more than a BMP can hold", n), nil
	}
	return "", nil
}

// spoil marks a sample as unreadable.
func (c *conversion) spoil(i int, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds[i], c.reasons[int32(i)] = unreadable, reason
}

// fingerprint covers everything that the index says about the dataset, and its files' sizes and
// times.
func (c *conversion) fingerprint() string {
	h := sha256.New()
	w := bufio.NewWriterSize(h, 64<<10)
	io.WriteString(w, "batchfs convert 1\n"+c.ds.Digest()+"\n")
	var b []byte
	for i, k := range c.kinds {
		id := c.ds.Stat(i)
		b = binary.LittleEndian.AppendUint64(b[:0], uint64(id.Size))
		b = binary.LittleEndian.AppendUint64(b, uint64(id.ModTime))
		w.Write(append(b, byte(k)))
	}
	w.Flush()
	return hex.EncodeToString(h.Sum(nil))
}

package engine

import (
	"fmt"
	"path"
	"strings"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/shard"
)

// Samples that the machine could not read when the dataset was opened have an unknown size
// and format. The bytes of batches must not depend on that, so whatever would follow from
// either is refused: batches whose shape the size decides, and the order of a dataset where
// raw samples are ordered separately.

// checkOrder refuses an order that depends on whether an unread sample is stored as plain
// pixels.
func checkOrder(ds *dataset.Dataset, raw *shard.RawSet) error {
	for i := range ds.Len() {
		why := ds.Unread(i)
		if why == "" {
			continue
		}
		switch strings.ToLower(path.Ext(ds.Path(i))) {
		case ".bmp", ".ppm", ".pgm", ".pnm", ".pbm":
		default:
			if raw.Count() == 0 {
				continue // nothing suggests a raw sample
			}
		}
		return fmt.Errorf("%w: %s: could not be read when the dataset was opened (%s), and the order of a shuffled dataset with raw images depends on its format; mount again when the storage answers",
			ErrMachine, ds.Path(i), why)
	}
	return nil
}

// shapeKnown refuses a batch whose shape depends on a sample that could not be read when
// the dataset was opened.
func (c *Catalog) shapeKnown(slots []shard.Slot) error {
	if c.Options.Transform.Height > 0 {
		return nil
	}
	for _, s := range slots {
		if why := c.Dataset.Unread(int(s.ID)); why != "" {
			return c.unread(s.ID, why)
		}
	}
	return nil
}

func (c *Catalog) unread(id int64, why string) error {
	return fmt.Errorf("%w: %s: could not be read when the dataset was opened (%s), so its size is not known; mount again when the storage answers",
		ErrMachine, c.Dataset.Path(int(id)), why)
}

package engine

import (
	"cmp"
	"fmt"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
)

// Arrays are made as masks are: each sample has a file of them, and a drawer just copies its
// elements. All that can be wrong with an array is in its header, and was found when the dataset
// was indexed. So an array is never tried to find out whether its sample is bad. If it can no
// longer be read, or has changed, that is a failure of the machine, and the batches that show it
// fail.

// An arrayPlace is where an array of a batch is.
type arrayPlace struct {
	bytes []byte
	at    []int64 // where each slot begins in them, and where the last one ends
}

// arrayBytes returns the elements of an array in one slot; empty if the batch does not show the
// array.
func (b *batch) arrayBytes(i, slot int) []byte {
	if b.arrays[i].bytes == nil {
		return nil
	}
	from, to := b.arrays[i].at[slot], b.arrays[i].at[slot+1]
	return b.arrays[i].bytes[from:to:to]
}

// placeArrays finds out where each slot begins in the arrays that a batch shows.
func (b *batch) placeArrays(c Budget) {
	b.arrays = make([]arrayPlace, len(c.Catalog.Options.Arrays))
	for i, a := range c.Catalog.Options.Arrays {
		if b.key.Part.HasArray(i) {
			b.arrays[i].at = a.Place(b.slots)
		}
	}
}

// fetchArray reads the array. There is nothing to read if the sample has none, or if it stands in
// for another sample and the array is ragged: the slot then has no room for its rows.
func (l besideImage) fetchArray() error {
	all, p, b, id := l.batches, &l.sample, l.item.batch, l.item.id
	i, _ := l.item.part.Array()
	o := all.catalog.Options.Arrays[i]
	if err := all.bad.indexed(id); err != nil {
		return err
	}
	if _, _, _, err := l.choose(); err != nil {
		return err
	}
	if row := o.Rows[id]; row >= 0 && !(o.Ragged() && id != b.slots[l.item.slot].ID) {
		err := l.readFile(all.bad.arrays[i].ds, int(row))
		if err == nil {
			p.data, err = o.Elements(id, p.data)
		}
		if fault.Of(err) == fault.File {
			return &fault.Fault{Cause: fault.Machine, Err: fmt.Errorf("%w; an array cannot be replaced once the dataset is open", dataset.Reason(err))}
		}
		if err != nil {
			return err
		}
	}
	return l.plan()
}

// drawArray copies the elements into the slot.
func (d *drawer) drawArray(l *load) error {
	i, _ := l.item.part.Array()
	to := l.item.batch.arrayBytes(i, l.item.slot)
	clear(to[copy(to, l.sample.data):])
	return nil
}

// readFile reads a file that belongs to a sample, beside its image.
func (l besideImage) readFile(ds *dataset.Dataset, row int) error {
	all, p := l.batches, &l.sample
	l.beginFetch()
	l.input.refused = nil
	given := all.memory.idle.given.Load()
	var read int64
	var err error
	p.data, read, p.seen, err = ds.LoadPart(all.ctx, row, l.item.source().Epoch, nil, l.input.grow, nil, 0)
	if outOfDescriptors(err) && all.memory.giveBackIdle(given) {
		p.data, read, p.seen, err = ds.LoadPart(all.ctx, row, l.item.source().Epoch, nil, l.input.grow, nil, 0)
	}
	if err = cmp.Or(l.input.refused, err); err == nil {
		all.meter.readBeside(read)
	}
	return err
}

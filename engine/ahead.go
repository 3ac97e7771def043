package engine

import (
	"slices"

	"github.com/batchfs/batchfs/internal/catalog"
)

// A batch that shows several parts of its samples, or where one part may show that a sample is bad
// in all of them, has each sample made part by part. The others are read together with the first
// one, if there is memory for that, and drawn right after it; else each is read and drawn when the
// one before it was.

// othersOf are what is made of each sample after the first part.
func (c Budget) othersOf(p Part) (list []Part) {
	o := &c.Catalog.Options
	either := o.OnError != Fail
	if !p.HasImages() && either {
		list = append(list, Images)
	}
	if o.Masks != nil && p != Masks && (p.HasMasks() || either) {
		list = append(list, Masks)
	}
	for i := range o.Arrays {
		if p.HasImages() && p.HasArray(i) {
			list = append(list, catalog.ArrayPart(i))
		}
	}
	return list
}

// carried is what a load has read of another part of its sample while it carries the first one.
type carried struct {
	half   Part
	sample fetched
	input  input
	full   bool // it was read, or reading it failed
	done   bool // it was drawn, or is not needed
}

// others are the parts of a load's sample but the first.
type others struct {
	load *load
	list []*carried
}

// of is what there is of a part.
func (o *others) of(p Part) *carried {
	i := slices.IndexFunc(o.list, func(c *carried) bool { return c.half == p })
	if i < 0 {
		i = len(o.list)
		o.list = append(o.list, &carried{half: p, input: newInput(o.load)})
	}
	return o.list[i]
}

// wanted are those that the load's batch makes.
func (o *others) wanted() []Part { return o.load.item.b.others }

// turn has the load carry another part of the same sample. To turn again is to turn back.
func (o *others) turn(c *carried) {
	l := o.load
	c.sample.instead = l.sample.instead
	l.half, c.half = c.half, l.half
	l.sample, c.sample = c.sample, l.sample
	l.input, c.input = c.input, l.input
}

// readAhead reads what else is to be made of a sample whose image was read, if that needs not wait
// for memory.
func (o *others) readAhead() {
	l := o.load
	if l.half != Images || len(o.wanted()) == 0 {
		return
	}
	id := l.sample.id
	if height, _ := l.batches.catalog.SizeOf(id); height == 0 {
		return // their transforms depend on the image
	}
	for _, p := range o.wanted() {
		c := o.of(p)
		if c.done = l.item.isProven(p, id); c.done {
			continue
		}
		o.turn(c)
		l.sample.drawn = l.fetch(id, catalog.StatusOK, false)
		if c.full = l.sample.drawn != errNoRoom; !c.full {
			l.again, l.input.asks = false, amount{}
			l.input.giveBack()
		}
		o.turn(c)
	}
}

// isProven reports whether a part of a sample that the batch does not show is known to be good.
func (it item) isProven(p Part, id int64) bool {
	bad := it.batches.bad
	if it.shows(p) || !bad.proven.has(p, id, it.of().Epoch) {
		return false
	}
	of, row := bad.where(p, id)
	return of.sameFile(row)
}

// drawAhead draws what was read of other parts of a sample that was drawn, the only one of able.
func (d *drawer) drawAhead(able []*load) {
	o := &able[0].others
	for _, p := range o.wanted() {
		c := o.of(p)
		if !c.full || c.sample.drawn != nil {
			c.done = c.done || c.full
			continue
		}
		o.turn(c)
		if c.done = d.admit(0, o.load, false); c.done {
			d.try(able)
		}
		o.turn(c)
	}
}

// lack reports whether parts of a sample are still to be read or drawn, or are bad.
func (o *others) lack() bool {
	return slices.ContainsFunc(o.wanted(), func(p Part) bool {
		c := o.of(p)
		return !c.done || c.full && c.sample.drawn != nil
	})
}

// finish makes the other parts of a sample of which one was made, in their places, or just to find
// out whether they are bad.
func (o *others) finish() (err error) {
	for i := 0; err == nil && i < len(o.wanted()); i++ {
		err = o.finishOne(o.of(o.wanted()[i]))
	}
	return err
}

func (o *others) finishOne(c *carried) (err error) {
	l, drawn, read := o.load, c.done, c.full
	c.done, c.full = false, false
	id, status := l.sample.id, l.sample.status
	if drawn && !read || !drawn && l.item.isProven(c.half, id) {
		return nil
	}
	o.turn(c)
	defer o.turn(c)
	if drawn {
		return l.verdict(l.sample.drawn)
	}
	l.again, l.input.asks = false, amount{}
	if err = l.obtain(id, status, false); err == nil {
		err = l.drawAgain()
	}
	return l.verdict(err)
}

// forget begins with another sample.
func (o *others) forget() {
	for _, c := range o.list {
		c.full, c.done = false, false
	}
}

package engine

import "github.com/batchfs/batchfs/layout"

// A copy is a batch that shows another one, which it holds, in another form: it is made by a
// batch worker alone, is not in the table, and exists while it is open or waited for.

// joinCopy holds the copy of a complete batch, which the caller holds, for an Open.
func (all *batches) joinCopy(source *batch, form layout.Form) (c *batch, isReady bool, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		return nil, false, ErrClosed
	}
	if c = source.copies[form]; c == nil {
		c = &batch{key: source.key, form: form, source: source, done: make(chan struct{})}
		if c.spec = source.spec; form != layout.PNG {
			c.spec = source.spec.In(form.OrderOf(all.opts.Layout))
		}
		if source.copies == nil {
			source.copies = map[layout.Form]*batch{}
		}
		source.copies[form] = c
		source.refs++
		all.enqueue(c)
	}
	c.refs++
	if c.state == ready {
		return c, true, nil
	}
	c.waiting++ // and asked stays 0: a copy goes before all batches, since nothing else frees its source
	all.takeWork.Broadcast()
	return c, false, nil
}

// copySource makes the bytes of a copy.
func (all *batches) copySource(c *batch) {
	source := c.source
	if c.form == layout.PNG {
		all.converter.PutSheet(c.buf.Bytes(), c.spec, source.pixels, source.valid)
		return
	}
	layout.Turn(c.buf.Bytes()[layout.DataOffset(c.form, c.spec):], c.spec.Order, source.pixels, source.spec, all.kernels.writing)
	layout.PutHeader(c.form, c.spec, c.buf.Bytes(), source.description().Meta())
}

package dataset

import (
	"errors"
	"sort"

	"github.com/batchfs/batchfs/internal/pages"
)

// KeepPages makes c keep compressed pages that samples are read from, until DropPages(c) or until
// another cache is set. Without a cache, a page is unpacked for each sample.
func (r *reader) KeepPages(c *pages.Cache) { r.pages.Store(c) }

// KeepsPages says whether a cache is set.
func (r *reader) KeepsPages() bool { return r.pages.Load() != nil }

// DropPages stops using c, unless another cache is set by now. Reads in progress may still use c.
func (r *reader) DropPages(c *pages.Cache) { r.pages.CompareAndSwap(c, nil) }

// Pages sums up the compressed pages, or blocks, that several samples share. It is zero for a
// dataset without any.
type Pages struct {
	Count    int64 // of pages
	Stored   int64 // bytes in storage
	Unpacked int64 // bytes
	Largest  int64 // bytes of the largest page, unpacked
	Single   int64 // bytes read from storage in an epoch if each sample reads its page
	Packed   int64 // all compressed pages, including those of single samples
}

// Pages looks at all samples.
func (d *Dataset) Pages() (p Pages) {
	t := d.table
	for i := 0; i < len(t.members); {
		first, end := t.page(i)
		if m := &t.members[i]; m.object >= 0 && m.Packed() {
			p.Packed++
			if uses := int64(end - first); uses > 1 {
				p.Count++
				p.Stored, p.Unpacked, p.Single = p.Stored+m.Length, p.Unpacked+m.Block, p.Single+uses*m.Length
				p.Largest = max(p.Largest, m.Block)
			}
		}
		i = end
	}
	return p
}

// page returns the rows around row i that are packed into the same stored bytes. A page may have
// thousands of rows.
func (s *table) page(i int) (first, end int) {
	m := &s.members[i]
	if m.object < 0 || !m.Packed() {
		return i, i + 1
	}
	same := func(k int) bool {
		if k < 0 || k >= len(s.members) {
			return false
		}
		o := &s.members[k]
		return m.object == o.object && m.Offset == o.Offset && m.Length == o.Length
	}
	return i - run(func(n int) bool { return same(i - n) }), i + 1 + run(func(n int) bool { return same(i + n) })
}

// run returns the largest n such that is(1) to is(n) hold.
func run(is func(n int) bool) int {
	most := 1
	for is(most) {
		most *= 2
	}
	return most/2 + sort.Search(most-most/2, func(n int) bool { return !is(most/2 + n + 1) })
}

// errAlone says that a sample must be read without a shared page.
var errAlone = errors.New("no shared page")

// fromPage reads a sample from a page. The first reader of a page loads and unpacks it for the
// others. first is the row of the page's first sample, and uses is how many samples share the page.
func (r *reading) fromPage(c *pages.Cache, first, uses int) (data []byte, read int64, err error) {
	f, size := &r.file, int(r.file.place.Size)
	key := pages.Key{Object: r.table.members[r.i].object, Offset: f.place.Offset}
	p, mine, err := c.Get(r.ctx, key, f.place.Block, uses, func(to []byte) error {
		n := f.skew + int(f.place.Length)
		if err := r.room(max(size, f.room(n)), max(size, n)); err != nil {
			return err
		}
		got, err := r.storage.fill(r.ctx, f, r.buf[:cap(r.buf)], 0, n)
		if read = int64(got); err == nil {
			err = r.checkUnchanged()
		}
		if err == nil {
			_, err = f.place.Whole().Unpack(to, r.buf[f.skew:n])
		}
		return err
	})
	switch own := errors.Is(err, ErrStopped) || errors.Is(err, errTooLarge); {
	case errors.Is(err, pages.ErrNoRoom), errors.Is(err, pages.ErrGivenUp), own && !mine:
		return nil, 0, errAlone
	case err == r.ctx.Err() && err != nil: // the context ended while it waited
		return nil, 0, ErrStopped
	case err != nil:
		return nil, read, err
	}
	use := r.i - first
	defer func() { p.Release(r.epoch, use) }()
	if !mine {
		err = r.checkUnchanged()
	}
	if err == nil {
		err = r.room(size, size)
	}
	if err != nil {
		use = pages.NoUse
		return nil, read, err
	}
	return append(r.buf[:0], p.Bytes()[f.place.From:][:size]...), read, nil
}

package engine

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/shard"
)

// Masks are made as images are: a load reads the mask of a slot's sample, and a drawer makes its
// elements. A batch of masks is a batch of its own, with Key.Part; a form that has images and masks
// is made of both. What is decided for an image, such as its crop, is decided for its mask from the
// index of the images, so a batch of masks reads no image. Caches in memory, packed forms and GPUs
// do not handle masks; the memory of masks is accounted as that of images.
//
// If bad samples are replaced or zeroed, a sample is bad in all of its batches if its image or its
// mask is. Each batch finds that out for itself: it also makes the other part of each sample, and
// throws it away. It need not do so for parts that knownGood knows were made before from the same
// file.
//
// If bad samples fail, each batch fails for the part that it shows, and for what the index has
// against either part.

// badParts are the bad images, and the bad masks.
type badParts struct {
	*badSamples             // images
	masks       *badSamples // nil: there are none
	arrays      []*badSamples
	catalog     *catalog.Catalog
	knownGood   knownGood
}

func newBadParts(c Budget, l *ledger) *badParts {
	r := &badReports{ledger: l}
	p := &badParts{badSamples: newBadSamples(c.Dataset, r, c.Options.Logger), catalog: c.Catalog}
	p.condemned = c.Catalog.Options.Condemned
	if o := c.Catalog.Options.Masks; o != nil && o.Dataset != nil {
		p.masks = newBadBeside(o.Dataset, o.Rows, r, c.Options.Logger)
	}
	for _, o := range c.Catalog.Options.Arrays {
		p.arrays = append(p.arrays, newBadBeside(o.Dataset, o.Rows, r, c.Options.Logger))
	}
	if (c.Catalog.Options.Masks != nil || p.arrays != nil) && c.Catalog.Options.OnError != Fail {
		n := c.Dataset.Len()
		l.force(useIndex, 8*int64(n))
		p.knownGood.in = [2][]uint32{catalog.Images: make([]uint32, n), catalog.Masks: make([]uint32, n)}
		p.knownGood.every = c.Catalog.Options.Transform.Mode != resample.RandomResizedCrop
	}
	return p
}

// maskRow is the number of the mask of a sample; -1: it is in no file.
func (p *badParts) maskRow(id int64) int64 {
	if p.masks == nil {
		return -1
	}
	return int64(p.catalog.Options.Masks.Rows[id])
}

// fetchingOf combines a part and a sample's number, which is below 1<<32, into one number.
func fetchingOf(part catalog.Part, id int64) int64 { return int64(part)<<32 | id }

// listOf returns the list of bad samples that a number made by fetchingOf belongs to, and the
// number there.
func (p *badParts) listOf(fetching int64) (*badSamples, int64) {
	return p.where(catalog.Part(fetching>>32), fetching&(1<<32-1))
}

func (p *badParts) pathOf(fetching int64) string {
	bad, row := p.listOf(fetching)
	return bad.ds.Path(int(row))
}

// knownOf is badSamples.known for a slot's image, or else for its mask.
func (p *badParts) knownOf(s shard.Slot) string {
	why, row := p.known(s), p.maskRow(s.ID)
	if why == "" && row >= 0 {
		if why = p.masks.known(shard.Slot{ID: row, Epoch: s.Epoch}); why != "" {
			why = p.masks.ds.Path(int(row)) + ": " + why
		}
	}
	return why
}

// checkIn is badSamples.check for all that makes a sample bad in a batch.
func (p *badParts) checkIn(part catalog.Part, s shard.Slot) (err error) {
	either := p.catalog.Options.OnError != Fail
	if part.HasImages() || either {
		err = p.check(s)
	}
	if row := p.maskRow(s.ID); err == nil && row >= 0 && (part.HasMasks() || either) {
		err = p.masks.check(shard.Slot{ID: row})
	}
	return err
}

// indexed returns what is wrong with the annotations of a sample.
func (p *badParts) indexed(id int64) error {
	if p.condemned[id] == "" {
		return nil
	}
	return p.check(shard.Slot{ID: id})
}

// indexedMask returns what is wrong with the annotations of a sample, or what the index has against
// its mask. It counts for all batches of that sample.
func (p *badParts) indexedMask(id int64) error {
	o := p.catalog.Options.Masks
	if err := p.indexed(id); err != nil || o == nil {
		return err
	}
	bad, row := p.badSamples, p.maskRow(id)
	if row >= 0 {
		if bad = p.masks; bad.ds.Problem(int(row)) != "" {
			return bad.check(shard.Slot{ID: row})
		}
		if why := bad.ds.Unread(int(row)); why != "" {
			return nil // reading it finds that out
		}
	} else {
		row = id
	}
	height, width := p.ds.Size(int(id), true)
	if height == 0 {
		return nil
	}
	m := o.Indexed(id)
	if err := o.Check(&m, height, width, p.ds.Orientation(int(id)), p.catalog.Options.Decoding.IgnoreOrientation); err != nil {
		return bad.report(row, err, bad.ds.Stat(int(row)))
	}
	return nil
}

// knownGood are images and masks that were made without a fault. By sample, it has the epoch in
// which that was, plus 1, or inAny. It is kept only if a fault of either counts for both.
type knownGood struct {
	mu    sync.Mutex
	in    [2][]uint32 // by Part
	every bool        // images, too, are good in every epoch if they are good in one
}

const inAny = 1<<32 - 1

func (p *knownGood) note(part catalog.Part, id int64, epoch int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if int(part) >= len(p.in) || p.in[part] == nil {
		return
	}
	if p.in[part][id] = uint32(epoch + 1); part == catalog.Masks || p.every {
		p.in[part][id] = inAny
	}
}

func (p *knownGood) has(part catalog.Part, id int64, epoch int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.in[part][id]
	return in == inAny || in == uint32(epoch+1)
}

// where returns the list that has a part of a sample if it is bad, and its number there.
func (p *badParts) where(part catalog.Part, id int64) (*badSamples, int64) {
	if i, array := part.Array(); array && p.catalog.Options.Arrays[i].Rows[id] >= 0 {
		return p.arrays[i], int64(p.catalog.Options.Arrays[i].Rows[id])
	}
	if row := p.maskRow(id); part == catalog.Masks && row >= 0 {
		return p.masks, row
	}
	return p.badSamples, id
}

// besideImage is a load of what a sample has beside its image.
type besideImage struct{ *load }

// sameFile reports whether a sample's file is still the one that was indexed, and not known to be
// bad.
func (f *badSamples) sameFile(id int64) bool {
	if bad, _ := f.lookup(id); bad.reason != nil {
		return false
	}
	_, err := f.look(int(id))
	return err == nil
}

// fetchMask reads the mask, and finds out how it is shown.
func (l besideImage) fetchMask() error {
	all, p, id := l.batches, &l.sample, l.item.id
	c := all.catalog
	if err := all.bad.indexedMask(id); err != nil {
		return err
	}
	height, width, orientation, err := l.choose()
	if err != nil {
		return err
	}
	p.mask = c.Options.Masks.Indexed(id)
	if row := int64(p.mask.Row); row >= 0 {
		if err := cmp.Or(all.bad.masks.check(shard.Slot{ID: row}), l.readMask(row)); err != nil {
			return err
		}
	}
	if err := c.Options.Masks.Check(&p.mask, height, width, orientation, c.Options.Decoding.IgnoreOrientation); err != nil {
		return err
	}
	return l.plan()
}

// choose decides how a sample is shown without its image, and returns the image's size and
// orientation as stored. If the index does not know them, the image is read.
func (l besideImage) choose() (height, width int, orientation uint8, err error) {
	all, p, c, id := l.batches, &l.sample, l.batches.catalog, l.item.id
	if h, w := c.SizeOf(id); h > 0 {
		height, width = c.Dataset.Size(int(id), true)
		p.transform = all.opts.Transform.Choose(l.item.source().Epoch, id, h, w)
		return height, width, c.Dataset.Orientation(int(id)), nil
	}
	part := l.item.part
	l.item.part = catalog.Images
	l.beginFetch()
	err = l.fetchImage(true)
	l.endFetch()
	l.item.part = part
	l.beginFetch() // a mask that is known to be bad is looked at again
	height, width, orientation = p.head.Height, p.head.Width, p.head.Orientation
	*p = fetched{seen: p.seen, transform: p.transform, notRead: err != nil}
	if err == nil {
		p.seen = unknownIdentity
	}
	return height, width, orientation, err
}

// readMask reads the mask's file, and judges it.
func (l besideImage) readMask(row int64) (err error) {
	all, p, m := l.batches, &l.sample, &l.sample.mask
	if err := l.readFile(all.bad.masks.ds, int(row)); err != nil {
		return err
	}
	n := 0
	if p.head, n, err = sample.JudgeMask(p.data, all.opts.Decoding.MaxPixels); err != nil {
		return err
	}
	if m.Bytes == 0 { // it could not be read when it was indexed
		m.Height, m.Width, m.Bytes = p.head.Height, p.head.Width, n
	}
	if m.Height != p.head.Height || m.Width != p.head.Width || m.Bytes != n {
		return fmt.Errorf("%w: %dx%d values of %d bytes, but the index says %dx%d of %d", sample.ErrUnfit, p.head.Height, p.head.Width, n, m.Height, m.Width, m.Bytes)
	}
	return nil
}

// sameOrientation refuses an image that is not stored as the index says, because its mask depends
// on that.
func sameOrientation(c *catalog.Catalog, id int64, head decode.Header) error {
	indexed := c.Dataset.Orientation(int(id))
	if c.Options.Masks == nil || c.Options.Decoding.IgnoreOrientation || indexed == 0 || indexed == head.Orientation {
		return nil
	}
	return fmt.Errorf("%w: its EXIF orientation is %d, and a manifest that says its size says that it is upright; leave height, width and format out of the manifest",
		sample.ErrUnfit, head.Orientation)
}

// drawMask makes the elements of a mask in its slot, if the batch shows it.
func (d *drawer) drawMask(l *load) error {
	all, p, b := d.batches, &l.sample, l.item.batch
	memory, err := all.memory.grow(&d.pixels[0], p.job.Memory)
	if err != nil {
		return err
	}
	pix, o := memory[:p.job.Memory], all.catalog.Options.Masks
	if p.mask.Row < 0 {
		err = o.Draw(l.item.id, pix)
	} else {
		err = d.decoders[0].Values(pix, p.data, p.head)
	}
	if err != nil || !l.item.shows(l.item.part) {
		return err
	}
	mask := pixels.NewMask(pix, p.mask.Height, p.mask.Width, p.mask.Bytes, p.mask.Orientation)
	o.Put(b.maskBytes(l.item.slot), b.spec.W, mask, p.transform, &d.columns)
	return nil
}

// readsImages reports whether a batch reads images.
func (c Budget) readsImages(part catalog.Part) bool {
	return part.HasImages() || c.Catalog.Options.OnError != Fail
}

// maskSize is the size of the file of a sample's mask; 0: the batch reads no masks.
func (c Budget) maskSize(id int64, part catalog.Part) int64 {
	o := c.Catalog.Options.Masks
	if o == nil || o.Rows[id] < 0 || !part.HasMasks() && c.Catalog.Options.OnError == Fail {
		return 0
	}
	return max(0, o.Dataset.Stat(int(o.Rows[id])).Size)
}

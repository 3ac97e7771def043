package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/shard"
)

// maxReplacements bounds the samples that are tried in place of a bad one, so that a batch of a
// dataset full of bad files takes seconds rather than days. The bytes of batches depend on it.
const maxReplacements = 1024

// noSample is the sample of an attempt that has yet to find one.
const noSample = -1

// A replacement is the search for the sample that fills the slot of a bad one: the next readable
// sample of the shard's range that fits. Which one that is depends only on the dataset.
type replacement struct {
	cause  error  // what is wrong with the slot's own sample
	reason string // the same, as the batch's description has it
	looked int64  // candidates that were looked at
	tried  int    // candidates that were tried, since they fit
	failed bool   // the search ended without a sample
}

// next finds the next candidate. The search ends if the batch is no longer wanted, and at any error
// that is not a file's fault.
func (r *replacement) next(it *item) (id int64, err error) {
	c, b := it.batches.catalog, it.batch
	defer func() { r.failed = err != nil }()
	for {
		r.looked++
		id, ok := c.Replacement(it.source(), r.looked)
		if !ok {
			return id, fmt.Errorf("%w; no sample of the shard can replace it", r.cause)
		}
		if why := c.Dataset.Unread(int(id)); why != "" {
			return id, c.Unread(id, why)
		}
		h, wd := c.SizeOf(id)
		fits := h > 0 && c.Fits(b.images, h, wd)
		if fits || r.looked%1024 == 0 {
			if err := it.stillWanted(); err != nil {
				return id, err
			}
		}
		if !fits {
			continue
		}
		if r.tried++; r.tried > maxReplacements {
			return id, fmt.Errorf("%w; the %d samples after it that could replace it cannot be read either", r.cause, maxReplacements)
		}
		return id, nil
	}
}

// ended settles the outcome of an attempt at the load's item. If another one follows, that begins.
func (l *load) ended(err error) {
	if l.conclude(err) {
		l.batches.wait.Go(l.tryAgain)
	}
}

// conclude settles the outcome of an attempt. It returns true if another one follows, which the
// caller has begin. Otherwise, the load is no longer the caller's.
func (l *load) conclude(err error) (again bool) {
	if err == errNoRoom {
		if err = l.batches.flow.room.add(l); err == nil {
			return false
		}
	}
	if again, err = l.judge(err); !again {
		l.endItem(err)
	}
	return again
}

// judge returns the outcome of an attempt, and whether another one follows it.
func (l *load) judge(err error) (again bool, judged error) {
	defer catch(&judged)
	it, r := &l.item, l.item.replaces
	if r != nil && r.failed {
		return false, err
	}
	if l.isInPart(err) {
		it.whole = true
		return true, nil
	}
	if err = l.verdict(err); r != nil {
		return it.follow(err)
	}
	if err == nil || fault.Of(err) == fault.File {
		err = l.joinParts(err)
	}
	if err == nil || fault.Of(err) != fault.File {
		return false, err
	}
	switch l.batches.opts.OnError {
	case Zero:
		l.notOnGPU()
		return false, l.zero(err)
	case Replace:
		l.notOnGPU()
		bad := reasonOf(err)
		it.replaces = &replacement{cause: err, reason: bad.path + ": " + bad.reason.Error()}
		it.find()
		return true, nil
	}
	return false, err
}

// isInPart reports whether an error may be one of the part of a file that was read, or of a packed
// form, and not of the file. Only what is found in the whole file counts.
func (l *load) isInPart(err error) bool {
	all := l.batches
	damaged := l.sample.packed && fault.Of(err) == fault.File
	if damaged {
		all.caches.cache.Drop(l.item.id)
		all.caches.disk.drop(l.item.id)
	}
	return !l.item.whole && (damaged || errors.Is(err, decode.ErrPart))
}

// verdict returns the outcome of an attempt. A sample whose file is bad is remembered and reported
// once; the error then wraps ErrBad.
func (l *load) verdict(err error) error {
	all, p, part := l.batches, &l.sample, l.item.part
	if p.notRead {
		part = catalog.Images
	}
	bad, id := all.bad.where(part, l.item.id)
	switch {
	case err == errKnownGood:
		return nil
	case err == nil:
		bad.wasRead(id, p.seen)
		all.bad.knownGood.note(l.item.part, l.item.id, l.item.source().Epoch)
		return nil
	case errors.Is(err, ErrBad):
		return err
	case fault.Of(err) == fault.File:
		return bad.report(id, err, p.seen)
	case fault.Of(err) == fault.Machine, fault.Of(err) == fault.Memory:
		return fmt.Errorf("%s: %w", bad.ds.Path(int(id)), dataset.Reason(err))
	}
	return err
}

// find has the next attempt look for a sample, beginning with the first part of it.
func (it *item) find() {
	it.attempt = attempt{id: noSample, part: it.batch.parts[0], gpu: it.gpu, replaces: it.replaces}
}

// follow says what follows an attempt at a part of a sample that replaces another one: the next
// part, or the next candidate.
func (it *item) follow(err error) (again bool, judged error) {
	switch next := slices.Index(it.batch.parts, it.part) + 1; {
	case err == nil && next < len(it.batch.parts):
		it.attempt = attempt{id: it.id, part: it.batch.parts[next], gpu: it.gpu, replaces: it.replaces}
	case fault.Of(err) == fault.File:
		it.batches.mu.Lock()
		it.batch.missing = append(it.batch.missing, shard.Slot{ID: it.id, Epoch: it.source().Epoch})
		it.batches.mu.Unlock()
		it.find()
	default:
		return false, err
	}
	return true, nil
}

// joinParts notes the outcome of the item's part of a sample, which may be bad. If all parts must
// be known, it returns nil until the last one was tried, and then the error of the first bad one.
func (l *load) joinParts(err error) error {
	it, j := l.item, &l.item.batch.outcomes
	it.batches.mu.Lock()
	defer it.batches.mu.Unlock()
	switch at := l.sample.slotOnGPU; {
	case j.left == nil || !it.isCurrent():
		return err
	case at != nil && at != it.batch.slot:
		return nil // itemDone hands it out again
	case at != nil:
		it.batch.onGPU[it.slot], l.sample.slotOnGPU = true, nil
	}
	if delete(j.bad, it.n); err != nil {
		j.bad[it.n] = err
	}
	if j.left[it.slot]--; j.left[it.slot] > 0 {
		return nil
	}
	for n := it.slot; n < len(it.batch.order); n += it.batch.items {
		if err := j.bad[int32(n)]; err != nil {
			return err
		}
	}
	return nil
}

// notOnGPU notes that the slot's pixels will be in host memory.
func (l *load) notOnGPU() {
	l.batches.mu.Lock()
	defer l.batches.mu.Unlock()
	if b := l.item.batch; b.onGPU != nil {
		b.onGPU[l.item.slot] = false
	}
}

// reasonOf returns what was reported about a file that is at fault.
func reasonOf(err error) *badError {
	if bad, ok := errors.AsType[*badError](err); ok {
		return bad
	}
	return &badError{reason: err}
}

// zero fills the slot with the fill value. The fault may be in a file beside the sample's own; the
// reason then has its name.
func (l *load) zero(cause error) error {
	all, b, slot := l.batches, l.item.batch, l.item.slot
	bad := reasonOf(cause)
	reason := bad.reason.Error()
	if bad.path != "" && bad.path != all.catalog.Dataset.Path(int(b.slots[slot].ID)) {
		reason = bad.path + ": " + reason
	}
	if err := l.item.beginWriting(); err != nil {
		return err
	}
	defer l.item.endWriting()
	if b.key.Part.HasImages() {
		all.catalog.Converter.Fill(b.slotBytes(slot), b.spec, all.opts.Fill)
	}
	if b.key.Part.HasMasks() {
		all.catalog.Options.Masks.Fill(b.maskBytes(slot))
	}
	for i := range b.arrays {
		clear(b.arrayBytes(i, slot))
	}
	b.samples[slot] = catalog.Sample{ID: b.slots[slot].ID, Label: -1, Status: catalog.StatusZeroed, Reason: reason}
	return nil
}

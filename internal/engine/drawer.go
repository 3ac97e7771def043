package engine

import (
	"errors"
	"log/slog"
	"runtime"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/machine"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
)

// A drawer makes the pixels of samples that were loaded, on a thread of its own. There is one for
// each processor that decodes. It may decode two images as a pair, so it has two of everything that
// an image needs until it is in its slot. It accounts for their memory.
type drawer struct {
	batches  *batches
	cpus     machine.CPUs
	decoders [2]*decode.Decoder
	pixels   [2]pinned.Host // decoded pixels, if they differ from what the slot holds, and the resizer's scratch
	packed   [2]pinned.Host // packed samples
	packing  [2]decode.Packing
	writers  [2]*layout.Writer
	columns  []int      // scratch for drawing masks: the source column of each column
	held     pinned.Use // memory of the decoders, as the account has it
	charged  int64      // the part of its memory that is charged to the ledger

	loads, decodable [2]*load // what it draws, and the part of it that is still wanted

	// Guarded by batches.mu.
	loading   *load // a load that it reads itself
	first     *load // a load that it has read itself, if loading is to be drawn together with it
	resting   bool  // it has nothing to do
	takeovers int   // counts the goroutines that took over from one whose read hangs
	rounds    int   // counts the times it was given something to draw
	probe     int   // the round in which it reads a sample itself, to measure how long that takes
}

func newDrawer(all *batches, cpus machine.CPUs) *drawer {
	d := &drawer{batches: all, cpus: cpus, probe: soonProbing}
	d.equip()
	for i := range d.writers {
		d.pixels[i], d.packed[i] = pinned.NewHost(all.opts.Memory, all.memory.rest), pinned.NewHost(all.opts.Memory, all.memory.rest)
		d.writers[i] = layout.NewWriter(all.catalog.Converter, all.opts.Decoding.Kernel)
	}
	return d
}

func (d *drawer) equip() {
	o := d.batches.opts.Decoding
	d.decoders = [2]*decode.Decoder{decode.NewDecoder(o), decode.NewDecoder(o)}
}

// presize allocates what each image took in an earlier run.
func (d *drawer) presize(bytes int64) error {
	err := d.pixels[0].Presize(int(bytes))
	if d.batches.opts.Decoding.Pairs(decode.Header{Format: decode.JPEG}) {
		err = errors.Join(err, d.pixels[1].Presize(int(bytes)))
	}
	d.chargeScratch()
	return err
}

// run draws until the engine closes, or until its own read hangs and a stand-in has taken over. It
// locks its goroutine to its OS thread, which is pinned to CPUs. The thread ends with the
// goroutine, so that no other goroutine inherits the CPUs.
func (d *drawer) run() {
	all := d.batches
	runtime.LockOSThread()
	pin(d.cpus, all.opts.Logger)
	for hands := d.next(); hands != nil; hands = d.next() {
		d.draw(hands)
		for _, l := range hands {
			l.ended(l.sample.drawErr)
		}
	}
}

// pin restricts the calling thread, to which its goroutine is locked, to some CPUs.
func pin(cpus machine.CPUs, log *slog.Logger) {
	if err := machine.Pin(cpus); err != nil {
		log.Warn("a worker stays where it is", "reason", err)
	}
}

// near has the calling goroutine, until it ends, run near the GPU, if that is asked for.
func (d *device) near() {
	if cpus := d.batches.opts.NearDevice; len(cpus) > 0 {
		runtime.LockOSThread()
		pin(cpus, d.batches.opts.Logger)
	}
}

// draw makes the pixels of one or two samples, in their slots: transformed, mirrored, normalized,
// and in the slots' order of axes. The result of each is in sample.drawn.
func (d *drawer) draw(hands []*load) {
	all, began, drawn := d.batches, time.Now(), 0
	able := d.begin(hands)
	if len(able) > 0 && !d.try(able) && len(able) > 1 { // only one of them is at fault, and the other may belong to another batch
		d.try(able[:1])
		d.try(able[1:])
	}
	for _, l := range able {
		switch err := l.sample.drawErr; {
		case err == nil:
			drawn++
			if l.item.part == l.item.batch.key.Part.First() {
				l.record()
			}
			if p := &l.sample; p.late { // samples that were to leave the cache before may have left it since
				all.caches.cache.Again(l.item.source().Epoch, l.item.id, stampOf(p.seen), p.data)
			}
		case all.opts.Transform.Mode == resample.RandomResizedCrop && l.item.part == catalog.Images:
			l.sample.drawErr = partError{err, l.item.source().Epoch}
		}
		l.item.endWriting()
	}
	if drawn > 0 && able[0].item.part == catalog.Images {
		all.device.share.processorTook(began, drawn)
		all.caches.rates.drew(able, time.Since(began))
	}
	d.chargeScratch()
}

// packs prepares to pack a sample while it is drawn, as the first or second of a pair, if there is
// memory for that.
func (d *drawer) packs(i int, l *load) *decode.Packing {
	p, m := &l.sample, d.batches.memory
	if !p.packs && !p.toDisk {
		return nil
	}
	k := d.batches.caches
	if d.batches.opts.CacheForm == FormAuto && !k.rates.affords() {
		p.packs = false // and the disk is not asked to keep any
		return nil
	}
	size := decode.PackedBound(p.head, int64(len(p.data)), decode.ForMemory)
	needs := d.batches.opts.Decoding.PackNeeds(p.head, int64(len(p.data)), decode.ForMemory)
	needs += max(0, d.packed[i].Plan(int(size))-d.packed[i].Bytes())
	p.packs = p.packs && k.cache.Grown()+needs <= k.forms.leaves()
	to, err := []byte(nil), error(nil)
	ok := (p.packs || p.toDisk) && m.ledger.admitDrawing(needs, false)
	if ok {
		d.charged += needs
		to, err = m.grow(&d.packed[i], int(size))
	}
	if !ok || err != nil {
		p.packs, p.toDisk = false, false
		return nil
	}
	d.packing[i] = decode.Packing{To: to}
	return &d.packing[i]
}

// keepPacked keeps a sample as it was packed, if it has such a form.
func (d *drawer) keepPacked(l *load, made *decode.Packing) {
	k, p := d.batches.caches, &l.sample
	if made == nil {
		return
	}
	if made.Err != nil {
		if p.toDisk {
			k.disk.never.set(l.item.id, true)
		}
		return
	}
	k.rates.wasPacked(len(p.data), made.Size)
	if p.packs {
		k.cache.Replace(l.item.id, stampOf(p.seen), made.To[:made.Size], k.forms.mayGrow(p.mix))
	}
	if p.toDisk {
		k.disk.keep(l.item.id, p.seen, made.To[:made.Size])
	}
}

// begin requests permission to write into the slots of some loads, as load.beginWriting does, and
// returns those that may be drawn.
func (d *drawer) begin(hands []*load) []*load {
	d.batches.mu.Lock()
	defer d.batches.mu.Unlock()
	able := d.decodable[:0]
	for _, l := range hands {
		if l.sample.drawErr = l.item.wanted(); l.sample.drawErr == nil {
			l.item.batch.writers++
			able = append(able, l)
		}
	}
	return able
}

// try draws samples, and reports whether it did so without a panic. A panic is the error of all of
// them. The decoders' state is then unknown, so new ones take their place.
func (d *drawer) try(able []*load) bool {
	var err error
	func() {
		defer catch(&err)
		d.decode(able)
	}()
	if err != nil {
		d.equip()
		for _, l := range able {
			l.sample.drawErr = err
		}
	}
	return err == nil
}

// decode decodes one or two samples, and then makes the pixels of each.
func (d *drawer) decode(able []*load) {
	var tasks [2]decode.Task
	var errs [2]error
	var planned [2]*load
	n := 0
	for _, l := range able {
		if l.item.part != catalog.Images { // such a load is never one of a pair
			if l.item.part == catalog.Masks {
				l.sample.drawErr = d.drawMask(l)
			} else {
				l.sample.drawErr = d.drawArray(l)
			}
			continue
		}
		if l.sample.drawErr = d.plan(n, l); l.sample.drawErr != nil {
			continue
		}
		if l.sample.entries {
			l.entries.Begin(d.decoders[n])
		}
		tasks[n], planned[n] = l.sample.job.Task(l.sample.data, l.sample.memory), l
		tasks[n].Verified, tasks[n].Pack = l.sample.packed, d.packs(n, l)
		n++
	}
	switch n {
	case 1:
		errs[0] = d.decoders[0].DecodeTask(tasks[0])
	case 2:
		errs = decode.DecodePair(&d.decoders, &tasks)
	}
	for i, l := range planned[:n] {
		l.sample.drawErr = l.finish(d.decoders[i], d.writers[i], errs[i])
		d.keepPacked(l, tasks[i].Pack)
	}
}

// plan says where the pixels of a sample, the first or second of a pair, go, and allocates the
// memory that making them takes.
func (d *drawer) plan(i int, l *load) (err error) {
	f, target := &l.sample, pixels.Target{Sink: d.writers[i]}
	if b := l.item.batch; l.item.shows(l.item.part) && d.batches.catalog.Converter.Direct(b.spec.Order, f.transform.Flip) {
		target.Pix, target.Stride = b.slotBytes(l.item.slot), b.spec.W*b.spec.C
	}
	if f.job = f.job.Into(target); f.job.Memory > 0 {
		f.memory, err = d.batches.memory.grow(&d.pixels[i], f.job.Memory)
	}
	return err
}

// admit charges the memory that drawing a sample takes beyond what the drawer holds, or reports
// that the ledger refuses it. i says whether the sample is the first or second of a pair.
func (d *drawer) admit(i int, l *load, only bool) bool {
	n := d.decoders[i].Needs(l.sample.head)
	if l.item.part == catalog.Masks {
		n = d.decoders[i].ValueNeeds(l.sample.head)
	}
	if m := l.sample.job.Memory; m > 0 {
		n += max(0, d.pixels[i].Plan(m)-d.pixels[i].Bytes())
	}
	ok := d.batches.memory.ledger.admitDrawing(n, only)
	if ok {
		d.charged += n
	}
	return ok
}

// trim frees the memory that is kept for the next image.
func (d *drawer) trim() {
	for i := range d.decoders {
		d.decoders[i].Trim()
		d.pixels[i].Free()
		d.packed[i].Free()
	}
	d.chargeScratch()
}

func (d *drawer) close() {
	d.trim()
	for i := range d.decoders {
		d.decoders[i].Close()
		d.writers[i].Close()
	}
}

// chargeScratch brings the accounts in line with what is held between images.
func (d *drawer) chargeScratch() {
	scratch := d.decoders[0].ScratchBytes() + d.decoders[1].ScratchBytes()
	held := pinned.Use{Real: scratch, Reserved: scratch}
	d.batches.memory.rest.Change(d.held, held)
	d.held = held
	for i := range d.pixels {
		scratch += d.pixels[i].Bytes() + d.packed[i].Bytes()
	}
	d.batches.memory.ledger.correct(useScratch, scratch-d.charged)
	d.charged = scratch
}

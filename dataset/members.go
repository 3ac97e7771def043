package dataset

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/parallel"
)

// lookAtPacked completes the listing of a folder that has no images, but archives of them.
func (p *opening) lookAtPacked(x *index) (err error) {
	if err := p.checkSplits(x.packed); err != nil || p.src.remote != nil {
		return err
	}
	if x.packed, err = p.stat(namesOf(x.packed)); err != nil {
		return err
	}
	for _, o := range x.packed {
		x.ignore(archive.ExtensionKey(o.name), -1)
	}
	return nil
}

func namesOf(objects []object) (names []string) {
	for _, o := range objects {
		names = append(names, o.name)
	}
	return names
}

// addArchives fills an index that has no samples with those of objects. What earlier ones say about the same
// versions of them is not searched for again.
func (p *opening) addArchives(x *index, objects []object, earlier ...*index) error {
	all, known := make([]found, len(objects)), p.known(objects, earlier)
	report, now := p.listing(objects), time.Now()
	var left []int
	again := make([]bool, len(objects))
	for i, o := range objects {
		if f := known[o]; f != nil {
			all[i], again[i] = *f, true
			report(o.id.Size)
		} else {
			left = append(left, i)
		}
	}
	keep := p.keepFound(objects)
	err := parallel.Each(p.ctx, p.requests(), len(left), nil, func(ctx context.Context, items iter.Seq[int]) error {
		for k := range items {
			i := left[k]
			var err error
			if all[i], err = p.search(ctx, objects[i], len(left), report); err != nil {
				return err
			}
			keep.add(objects[i], all[i])
		}
		return nil
	})
	if err != nil {
		keep.save()
		return err
	}
	for i, f := range all {
		if f.dali != "" && p.report.DALIProblem == "" { // one is enough to know
			p.report.DALIProblem = p.src.nameOf(objects[i].name) + ": " + f.dali
			p.Logger.Warn("DALI's index was not used", "tar", p.src.nameOf(objects[i].name), "reason", f.dali)
		}
	}
	if err := p.addFound(x, objects, all, now); err != nil {
		return err
	}
	for i, row := range x.table.row {
		switch _, bad := x.table.bad[uint32(i)]; {
		case again[x.table.members[i].object] && (bad && row.id.Known() || row.format != 0):
			p.report.Reused++
		case row.format != 0:
			p.report.Scanned++
		}
	}
	return nil
}

// addFound is addArchives for objects that were searched, from a time on. It keeps nothing in all.
func (p *opening) addFound(x *index, objects []object, all []found, now time.Time) error {
	for _, o := range objects {
		if p.src.remote == nil {
			s := newStamp(time.Unix(0, o.id.ModTime), now)
			x.Stamp.Unsettled = x.Stamp.Unsettled || s.Unsettled
		}
		x.Stamp.Time = max(x.Stamp.Time, o.id.ModTime)
	}
	if err := x.addMembers(objects, all, p.src.within); err != nil {
		return fmt.Errorf("%s: %w: %w", p.src.name(), ErrArchive, err)
	}
	return nil
}

// listing returns what archives that are searched report their progress to, in bytes.
func (p *opening) listing(objects []object) func(n int64) {
	if p.Listing == nil {
		return func(int64) {}
	}
	var mu sync.Mutex
	var done, total int64
	for _, o := range objects {
		total += o.id.Size
	}
	return func(n int64) {
		mu.Lock()
		defer mu.Unlock()
		done += n
		p.Listing(done, total)
	}
}

// requests is how many files are looked at together.
func (p *opening) requests() int {
	switch {
	case p.src.remote != nil:
		return max(p.Workers, asked)
	case p.Workers > 0:
		return p.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// search finds the samples in an object, one of n, and the headers of those that it comes by.
func (p *opening) search(ctx context.Context, o object, n int, report func(n int64)) (found, error) {
	f, err := p.openWhole(o)
	if err != nil {
		return found{}, fmt.Errorf("%s: %w", p.src.nameOf(o.name), err)
	}
	defer p.storage.close(&f)
	memory := p.memory.holding(ctx)
	defer memory.release()
	var headers []header
	dali := ""
	passed := int64(0)
	how := archive.Options{Label: p.src.labels, Memory: memory.take, Progress: func(done, _ int64) {
		if done > passed {
			report(done - passed)
			passed = done
		}
	}}
	if p.src.remote != nil {
		how.Block = int(p.block())
		how.Room = p.Memory/int64(n) - p.block() // of few objects, each has the memory that many would
		how.Ahead, dali = p.ahead(ctx, o)
		how.Unfit = func() { dali = "it is that of another tar" }
		how.Seen = func(at archive.Place, data []byte) {
			if h, ok := p.seen(at, data); ok {
				headers = append(headers, h)
			}
		}
	}
	c, err := archive.Scan(ctx, o.name, &section{ctx, p.storage, f}, o.id.Size, how)
	if err == nil {
		err = p.storage.unchanged(&f)
	}
	switch {
	case ctx.Err() != nil:
		return found{}, ctx.Err()
	case errors.Is(err, archive.ErrBad):
		err = fmt.Errorf("%w: %w", ErrArchive, err)
	}
	if err != nil {
		return found{}, fmt.Errorf("%s: %w", p.src.nameOf(o.name), err)
	}
	report(o.id.Size - passed)
	has := foundIn(o, c, headers)
	has.dali = dali
	return has, nil
}

// ahead is what a search of a tar is going to read, as DALI's index beside it has that, or what is wrong with that.
func (p *opening) ahead(ctx context.Context, o object) (spans []archive.Span, problem string) {
	name, is := strings.CutSuffix(o.name, ".tar")
	if !is || o.id.Size <= p.block() {
		return nil, ""
	}
	idx, err := p.src.remote.Stat(ctx, p.src.prefix+name+".idx")
	if err != nil {
		return nil, "" // there is none, or if the store has failed, the tar will show that
	}
	text := io.NewSectionReader(&objectAt{ctx, p.src.remote, idx}, 0, idx.Size)
	spans, err = archive.ReadDALI(bufio.NewReaderSize(text, 1<<20), o.id.Size, firstProbe, nearRows, p.block()/8)
	if err != nil {
		return nil, err.Error()
	}
	wanted := int64(0)
	for _, s := range spans {
		wanted += s.To - s.From
	}
	if wanted > o.id.Size/2 {
		return nil, "" // to read it as a whole takes fewer requests
	}
	return spans, ""
}

// seen reads a sample's header from the data that is in memory. If that is not enough, the header is left to the scan.
func (p *opening) seen(at archive.Place, data []byte) (found header, ok bool) {
	h, err := p.Prober(data, nil, at.Size)
	if err == nil && h.Tail > 0 {
		if int64(len(data)) < at.Size {
			return found, false
		}
		h, err = p.Prober(data, data[len(data)-min(h.Tail, len(data)):], at.Size)
	}
	var s sample
	ok = err == nil && h.check() == nil && s.set(h) == nil
	return header{at.Offset, s.height, s.width, s.orient, s.format}, ok
}

// scanBlock is how many bytes of an object in a store are read at a time to pass over it, unless memory is scarce.
const scanBlock = 8 << 20

func (p *opening) block() int64 { return min(scanBlock, max(1<<20, p.Memory/12)) }

// openWhole opens an object in the version that was found.
func (p *opening) openWhole(o object) (file, error) {
	if p.src.remote != nil {
		return stored(p.src.prefix+o.name, o.version, o.id), nil
	}
	f, err := p.storage.open(p.src.dir, o.name)
	if err != nil {
		return f, err
	}
	if f.whole != o.id {
		p.storage.close(&f)
		return noFile, ErrChanged
	}
	return f, nil
}

// nameOf is the full path, or the URL, of a file of the dataset.
func (s *source) nameOf(name string) string {
	if s.remote != nil {
		return s.dir + name
	}
	return path.Join(s.dir, name)
}

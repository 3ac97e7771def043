package dataset

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strings"
	"time"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/parallel"
)

// lookAtPacked completes the listing of a folder that has archives of images, but no images.
func (p *opening) lookAtPacked(x *index) (err error) {
	for _, o := range x.packed {
		x.ignore(archive.ExtensionKey(o.name), -1)
	}
	if !p.AsClasses {
		err = checkSplits(p.src.dir, x.packed)
	}
	if err == nil && p.src.remote == nil {
		x.packed, err = p.storage.findAll(p.ctx, namesOf(x.packed))
	}
	return err
}

func namesOf(objects []object) (names []string) {
	for _, o := range objects {
		names = append(names, o.name)
	}
	return names
}

// longSearch is how many bytes of archives must be left to search for the result of each archive to
// be saved. A variable for tests.
var longSearch int64 = 1 << 30

// addArchives fills an index without samples with those in objects. It does not search objects
// whose contents are known.
func (p *opening) addArchives(x *index, objects []object, known *earlierFacts) error {
	all := make([]contents, len(objects))
	progress, now := joint{report: p.Listing}, time.Now()
	for _, o := range objects {
		progress.total += o.id.Size
	}
	var left []int
	toSearch := int64(0)
	for i, o := range objects {
		if c := known.of(o, p.Merge); c != nil {
			all[i] = *c
			progress.part()(o.id.Size, 0)
		} else {
			left = append(left, i)
			toSearch += o.id.Size
		}
	}
	if p.Merge && len(left) > 0 {
		return p.files.lacking(known, len(objects), left)
	}
	err := parallel.Each(p.ctx, p.requests(), len(left), nil, func(ctx context.Context, items iter.Seq[int]) error {
		for k := range items {
			i := left[k]
			c, err := p.search(ctx, objects[i], len(left), progress.part())
			if err != nil {
				return err
			}
			c.unsettled = p.src.remote == nil && newStamp(time.Unix(0, objects[i].id.ModTime), now).Unsettled
			if all[i] = c; toSearch >= longSearch {
				p.journal.put(func(w *factsWriter) { w.contents(objects[i], &c) })
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err = x.addContents(objects, all); err == nil && p.Part.N == 0 {
		err = x.findOrder(p.src.within)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w", p.src.name(), ErrArchive, err)
	}
	searched := make([]bool, len(objects))
	for _, i := range left {
		searched[i] = true
	}
	for i, row := range x.table.row {
		_, bad := x.table.bad[uint32(i)]
		switch {
		case !searched[x.table.members[i].object] && (bad && row.id.Known() || row.format != 0):
			p.report.Reused++
		case row.format != 0:
			p.report.Scanned++
		}
	}
	return nil
}

// requests is how many files are examined at a time.
func (p *opening) requests() int {
	switch {
	case p.src.remote != nil:
		return max(p.Workers, asked)
	case p.Workers > 0:
		return p.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// search finds the samples in an object, one of n, and the headers that are in the bytes it reads.
func (p *opening) search(ctx context.Context, o object, n int, report func(done, total int64)) (contents, error) {
	f, err := p.storage.openWhole(o)
	if err != nil {
		return contents{}, fmt.Errorf("%s: %w", p.src.nameOf(o.name), err)
	}
	defer p.storage.close(&f)
	memory := p.memory.holding(ctx)
	defer memory.release()
	var headers []header
	dali := ""
	how := archive.Options{Image: p.Field, Label: p.src.labels, Memory: memory.take, Progress: func(done, _ int64) { report(done, 0) }}
	how.Seen = func(at archive.Place, data []byte) {
		if h, ok := p.seen(at, data); ok {
			headers = append(headers, h)
		}
	}
	if p.src.remote != nil {
		how.Block = int(p.block())
		how.Room = p.Memory/int64(n) - p.block() // with few objects, each gets the memory that many would share
		how.Ahead, dali = p.ahead(ctx, o)
		how.Unfit = func() { dali = "it is that of another tar" }
	}
	c, err := archive.Scan(ctx, o.name, &section{ctx, p.storage, f}, o.id.Size, how)
	if err == nil {
		err = p.storage.unchanged(&f)
	}
	switch {
	case ctx.Err() != nil:
		return contents{}, ctx.Err()
	case errors.Is(err, archive.ErrBad):
		err = fmt.Errorf("%w: %w", ErrArchive, err)
	}
	if err != nil {
		return contents{}, fmt.Errorf("%s: %w", p.src.nameOf(o.name), err)
	}
	report(o.id.Size, 0)
	if p.src.within != "" && !c.Ordered {
		c.Keep(func(i int) bool { return strings.HasPrefix(c.Samples[i].Name, p.src.within) })
	}
	if dali != "" {
		p.Logger.Warn("DALI's index was not used", "tar", p.src.nameOf(o.name), "reason", dali)
	}
	return newContents(o, c, headers), nil
}

// ahead returns the parts of a tar that a search will read, according to DALI's index beside the
// tar, or says what is wrong with that index.
func (p *opening) ahead(ctx context.Context, o object) (spans []archive.Span, problem string) {
	name, is := strings.CutSuffix(o.name, ".tar")
	if !is || o.id.Size <= p.block() {
		return nil, ""
	}
	idx, err := p.src.remote.Stat(ctx, p.src.prefix+name+".idx")
	if err != nil {
		return nil, "" // there is no index; if the store failed, reading the tar shows it
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
		return nil, "" // reading the whole tar takes fewer requests
	}
	return spans, ""
}

// seen reads a sample's header from bytes that are in memory. If they do not suffice, the scan
// reads the header.
func (p *opening) seen(at archive.Place, data []byte) (found header, ok bool) {
	h, err := p.Prober.inMemory(data, at.Size)
	var s sample
	ok = err == nil && s.set(h) == nil
	return header{at.Offset, s.height, s.width, s.orient, s.format}, ok
}

// scanBlock is how many bytes of an object in a store one read takes while the object is searched,
// unless memory is scarce.
const scanBlock = 8 << 20

func (p *opening) block() int64 { return min(scanBlock, max(1<<20, p.Memory/12)) }

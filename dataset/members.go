package dataset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batchfs/batchfs/dataset/archive"
	"github.com/batchfs/batchfs/internal/parallel"
)

// listArchives finds the samples in the objects that the source names.
func (p *opening) listArchives() (*index, error) {
	objects, err := p.archives()
	if err != nil {
		return nil, err
	}
	x := &index{table: newTable(0, 0)}
	return x, p.addArchives(x, objects)
}

// listPacked is the index of a folder that has no images, but archives of them.
func (p *opening) listPacked(x *index) (*index, error) {
	objects := x.packed
	if err := p.checkSplits(objects); err != nil {
		return nil, err
	}
	if p.src.remote == nil {
		var err error
		if objects, err = p.stat(namesOf(objects)); err != nil {
			return nil, err
		}
		for _, o := range objects {
			x.ignore(extensionKey(o.name), -1)
		}
	}
	return x, p.addArchives(x, objects)
}

func namesOf(objects []object) (names []string) {
	for _, o := range objects {
		names = append(names, o.name)
	}
	return names
}

// addArchives fills an index that has no samples with those of objects.
func (p *opening) addArchives(x *index, objects []object) error {
	contents, headers := make([]*archive.Contents, len(objects)), make([]map[int64]Header, len(objects))
	report, now := p.listing(objects), time.Now()
	err := parallel.Each(p.ctx, p.requests(), len(objects), nil, func(ctx context.Context, items iter.Seq[int]) error {
		for i := range items {
			var err error
			if contents[i], headers[i], err = p.contents(ctx, objects[i], report); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, o := range objects {
		if p.src.remote == nil {
			s := newStamp(time.Unix(0, o.id.ModTime), now)
			x.Stamp.Unsettled = x.Stamp.Unsettled || s.Unsettled
		}
		x.Stamp.Time = max(x.Stamp.Time, o.id.ModTime)
	}
	if err := x.addMembers(objects, contents, p.src.within); err != nil {
		return fmt.Errorf("%s: %w: %w", p.src.name(), ErrArchive, err)
	}
	for i := range x.table.row {
		m := &x.table.members[i]
		if h, known := headers[m.object][m.Offset]; known && x.table.row[i].set(h) == nil {
			p.report.Scanned++
		}
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

// contents searches an object for samples. Of those that it comes by, it returns the headers, by their offsets.
func (p *opening) contents(ctx context.Context, o object, report func(n int64)) (*archive.Contents, map[int64]Header, error) {
	f, err := p.openWhole(o)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", p.src.nameOf(o.name), err)
	}
	defer p.storage.close(&f)
	headers, passed := map[int64]Header{}, int64(0)
	how := archive.Options{Progress: func(done, _ int64) {
		if done > passed {
			report(done - passed)
			passed = done
		}
	}}
	if p.src.remote != nil {
		how.Block = scanBlock
		how.Seen = func(at archive.Place, data []byte) {
			if h, ok := p.seen(at, data); ok {
				headers[at.Offset] = h
			}
		}
	}
	c, err := archive.Scan(ctx, o.name, &section{p.storage, f, ctx.Done()}, o.id.Size, how)
	if err == nil {
		err = p.storage.unchanged(&f)
	}
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case errors.Is(err, archive.ErrBad):
		err = fmt.Errorf("%w: %w", ErrArchive, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", p.src.nameOf(o.name), err)
	}
	report(o.id.Size - passed)
	return c, headers, nil
}

// seen reads the header of a sample of which there is data in memory. What is not clear from that is left to the scan.
func (p *opening) seen(at archive.Place, data []byte) (h Header, ok bool) {
	h, err := p.Prober(data, nil, at.Size)
	if err == nil && h.Tail > 0 {
		if int64(len(data)) < at.Size {
			return h, false
		}
		h, err = p.Prober(data, data[len(data)-min(h.Tail, len(data)):], at.Size)
	}
	return h, err == nil && h.check() == nil
}

// scanBlock is how much of an object in a store is read at a time by those who pass over it, in bytes.
const scanBlock = 8 << 20

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

// addMembers fills the table, which is empty, with the samples of objects.
func (x *index) addMembers(objects []object, contents []*archive.Contents, within string) error {
	t, all := x.table, flatten(contents)
	t.objects = objects
	x.ignoreAll(contents)
	if len(all.sample) == 0 {
		return nil
	}
	ordered := contents[all.object[0]].Ordered
	for k, c := range contents {
		if len(c.Samples) > 0 && c.Ordered != ordered {
			return fmt.Errorf("%s has an order of its own, unlike other files", objects[k].name)
		}
	}
	if !ordered {
		return x.addTree(all, contents, within)
	}
	if within != "" {
		return fmt.Errorf("there are no folders, such as %s, in files of this kind", within)
	}
	labels, err := all.labels(contents, x)
	if err != nil {
		return err
	}
	for i, s := range all.sample {
		name := s.Name
		if len(objects) > 1 {
			name = objects[all.object[i]].name + "/" + name
		}
		if err := x.addMember(name, labels[i], all.object[i], &s.Place, all.problem[i]); err != nil {
			return err
		}
	}
	return nil
}

// addTree adds samples in the order, and with the labels, of a directory of their names, or of a directory in that.
func (x *index) addTree(all members, contents []*archive.Contents, within string) error {
	folders := map[string]bool{}
	for _, c := range contents {
		for name := range c.Folders {
			if name, inside := strings.CutPrefix(name, within); inside {
				folders[name] = true
			}
		}
	}
	name := func(i int) string {
		n, ok := strings.CutPrefix(all.sample[i].Name, within)
		if !ok {
			return ""
		}
		return n
	}
	a := arrange(len(all.sample), name, folders, within == "")
	if err := a.duplicate(name); err != nil {
		return err
	}
	x.classes = a.classes
	if len(a.order) > 0 {
		x.lifted = name(int(a.order[0]))[:a.strip]
	}
	for kind, n := range a.ignored {
		x.ignore(kind, n)
	}
	for _, i := range a.order {
		if err := x.addMember(name(int(i))[a.strip:], a.label[i], all.object[i], &all.sample[i].Place, all.problem[int(i)]); err != nil {
			return err
		}
	}
	return nil
}

func (x *index) addMember(name string, label, object int32, p *archive.Place, problem string) error {
	t := x.table
	clean, outside, err := cleanPath(name)
	switch {
	case err != nil:
		return err
	case outside || clean != name:
		return fmt.Errorf("%q: %w", name, ErrOutside)
	}
	if err := t.appendRow(name, label); err != nil {
		return err
	}
	t.row[len(t.row)-1].id = Identity{Size: p.Size, ModTime: t.objects[object].id.ModTime}
	t.members = append(t.members, member{object, *p})
	if problem != "" {
		t.addBad(len(t.row)-1, reason(errors.New(problem)), false)
	}
	return nil
}

// members are the samples of several objects, one after another.
type members struct {
	sample  []*archive.Sample
	object  []int32
	problem map[int]string
}

func flatten(contents []*archive.Contents) (all members) {
	all.problem = map[int]string{}
	for k, c := range contents {
		for i, reason := range c.Problems {
			all.problem[len(all.sample)+i] = reason
		}
		for i := range c.Samples {
			all.sample, all.object = append(all.sample, &c.Samples[i]), append(all.object, int32(k))
		}
	}
	return all
}

// labels are the labels of samples whose objects have an order, and sets the classes of the index.
func (all *members) labels(contents []*archive.Contents, x *index) (labels []int32, err error) {
	labels = make([]int32, len(all.sample))
	var names []string
	for _, s := range all.sample {
		if s.Class != "" {
			names = append(names, s.Class)
		}
	}
	fixed := contents[all.object[0]].Classes
	switch {
	case fixed != nil:
		x.classes = fixed
	case names != nil:
		slices.SortFunc(names, CompareNames)
		x.classes = slices.Clone(slices.Compact(names))
	}
	number := map[string]int32{}
	for k, name := range x.classes {
		number[name] = int32(k)
	}
	for i, s := range all.sample {
		label := s.Label
		if fixed == nil && s.Class != "" {
			label = int64(number[s.Class])
		} else if fixed == nil && names != nil && label >= 0 {
			return nil, fmt.Errorf("%s: some labels are numbers, others are names", s.Name)
		}
		if label < -1 || label > math.MaxInt32 || x.classes != nil && label >= int64(len(x.classes)) {
			return nil, fmt.Errorf("%s: label %d is not one of the %d classes", s.Name, label, len(x.classes))
		}
		labels[i] = int32(label)
	}
	for _, c := range contents {
		if len(c.Samples) > 0 && !slices.Equal(c.Classes, fixed) {
			return nil, errors.New("the files do not have the same classes")
		}
	}
	return labels, nil
}

func (x *index) ignoreAll(contents []*archive.Contents) {
	for _, c := range contents {
		for kind, n := range c.Ignored {
			x.ignore(kind, n)
		}
	}
}

// nameOf is the full path, or the URL, of a file of the dataset.
func (s *source) nameOf(name string) string {
	if s.remote != nil {
		return s.dir + name
	}
	return path.Join(s.dir, name)
}

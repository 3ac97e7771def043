package dataset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
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
	if err := p.addContents(x, objects, contents, now); err != nil {
		return err
	}
	for i := range x.table.row {
		m := &x.table.members[i]
		if h, known := headers[m.object][m.Offset]; known && x.table.row[i].set(h) == nil {
			p.report.Scanned++
		}
	}
	return nil
}

// addContents is addArchives for objects that were searched, from a time on.
func (p *opening) addContents(x *index, objects []object, contents []*archive.Contents, now time.Time) error {
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

// scanBlock is how many bytes of an object in a store are read at a time to pass over it.
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
	if x.raw() {
		x.Folders = nil
		for _, name := range foldersOf(contents) {
			x.Folders = append(x.Folders, []byte(name))
		}
	}
	if len(all.sample) == 0 {
		return nil
	}
	first := contents[all.object[0]]
	for k, c := range contents {
		if len(c.Samples) > 0 && c.Ordered != first.Ordered {
			return fmt.Errorf("%s has an order of its own, unlike other files", objects[k].name)
		}
	}
	x.Ordered, x.Numbered = first.Ordered, first.Classes != nil
	switch {
	case x.raw():
	case !x.Ordered:
		return x.addTree(&all, foldersOf(contents), within)
	case within != "":
		return fmt.Errorf("there are no folders, such as %s, in files of this kind", within)
	}
	labels, err := all.labels(contents, x)
	if err != nil {
		return err
	}
	for i, s := range all.sample {
		name := s.Name
		if len(objects) > 1 && !x.raw() {
			name = objects[all.object[i]].name + "/" + name
		}
		if err := x.addMember(&all, i, name, labels[i]); err != nil {
			return err
		}
	}
	return nil
}

// foldersOf are the folders in archives without an order of their own, sorted.
func foldersOf(contents []*archive.Contents) []string {
	all := map[string]bool{}
	for _, c := range contents {
		maps.Copy(all, c.Folders)
	}
	return slices.Sorted(maps.Keys(all))
}

// addTree adds samples in the order, and with the labels, of a directory of their names, or of a directory in that.
func (x *index) addTree(all *members, known []string, within string) error {
	folders := map[string]bool{}
	for _, name := range known {
		if name, inside := strings.CutPrefix(name, within); inside {
			folders[name] = true
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
		if err := x.addMember(all, int(i), name(int(i))[a.strip:], a.label[i]); err != nil {
			return err
		}
	}
	return nil
}

// addMember adds the i-th of the samples that were found.
func (x *index) addMember(all *members, i int, name string, label int32) error {
	t, object, p := x.table, all.object[i], &all.sample[i].Place
	clean, outside, err := cleanPath(name)
	switch {
	case x.raw():
	case err != nil:
		return err
	case outside || clean != name:
		return fmt.Errorf("%q: %w", name, ErrOutside)
	}
	if err := t.appendRow(name, label); err != nil {
		return err
	}
	t.row[len(t.row)-1].id = Identity{Size: p.Size, ModTime: t.objects[object].id.ModTime}
	t.members, x.origin = append(t.members, member{object, *p}), append(x.origin, int32(i))
	if problem := all.problem[i]; problem != "" {
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

// joinContents returns what was found in objects, of the indexes of parts of them.
func joinContents(objects []object, parts []*index) (all []*archive.Contents, err error) {
	for _, x := range parts {
		t, first := x.table, len(all)
		lo, hi := x.Part.Span(len(objects))
		if !slices.Equal(t.objects, objects[lo:hi]) {
			return nil, errListing
		}
		for range t.objects {
			all = append(all, &archive.Contents{Ordered: x.Ordered})
		}
		if first < len(all) {
			all[first].Ignored, all[first].Folders = x.Ignored, map[string]bool{}
			for _, name := range x.Folders {
				all[first].Folders[string(name)] = true
			}
		}
		for i, m := range t.members {
			if i > 0 && m.object < t.members[i-1].object {
				return nil, errCounts
			}
			c, s := all[first+int(m.object)], archive.Sample{Name: t.path(i), Label: int64(t.row[i].label), Place: m.Place}
			if x.Numbered {
				c.Classes = x.classes
			} else if x.classes != nil && s.Label >= 0 {
				s.Class, s.Label = x.classes[s.Label], -1
			}
			c.Samples = append(c.Samples, s)
		}
	}
	return all, nil
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

package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"sync"

	"github.com/batchfs/batchfs/internal/parallel"
)

// Each dataset of a list is opened with an index of its own, which also serves that dataset alone.
// The samples are put into one table, in the order of the list.

// entriesAtOnce is how many datasets of a list are opened at a time: for each, it takes a few round
// trips to a store to find out that nothing has changed.
const entriesAtOnce = 8

// runEntries is run for a list of several datasets, which are in storages.
func (p *opening) runEntries(storages []*storage) (_ *index, err error) {
	if p.files, err = findFiles(&p.Options, p.src); err != nil {
		return nil, err
	}
	n := len(p.src.entries)
	all, opened, busy := make([]*index, n), make([]opening, n), map[string]*sync.Mutex{}
	var mu sync.Mutex
	missing := &PartsError{}
	listed, scanned := joint{report: p.Listing}, joint{report: p.Progress}
	for k, e := range p.src.entries {
		q := *p
		q.src, q.storage, q.report = e, storages[k], Report{}
		q.Listing, q.Progress = listed.part(), scanned.part()
		if p.Part.N > 0 {
			q.Part.K = (p.Part.K + k) % p.Part.N // so that the datasets that are single objects are spread over the parts
		}
		opened[k], busy[e.identity()] = q, &sync.Mutex{}
	}
	err = parallel.Each(p.ctx, entriesAtOnce, n, nil, func(ctx context.Context, items iter.Seq[int]) (err error) {
		for k := range items {
			e := p.src.entries[k]
			index := busy[e.identity()] // a dataset that is named twice is indexed once
			index.Lock()
			opened[k].ctx = ctx
			all[k], err = opened[k].run()
			index.Unlock()
			if parts, ok := errors.AsType[*PartsError](err); ok && len(parts.Parts) > 0 {
				mu.Lock()
				for _, part := range parts.Parts {
					missing.Parts = append(missing.Parts, Share{(part.K - k%part.N + part.N) % part.N, part.N})
				}
				missing.Err = parts.Err
				mu.Unlock()
			} else if err != nil {
				return fmt.Errorf("%s: %w", p.src.list, &EntryError{e.line, e.name(), err})
			}
		}
		return nil
	})
	if err == nil && len(missing.Parts) > 0 {
		slices.SortFunc(missing.Parts, func(a, b Share) int { return cmp.Compare(a.K, b.K) })
		missing.Parts = slices.Compact(missing.Parts)
		err = missing
	}
	if err != nil {
		return nil, err
	}
	for k := range opened {
		q := &opened[k]
		if p.Classes != nil && p.Part.N == 0 {
			q.fix(all[k])
		}
		p.report.Scanned, p.report.Reused = p.report.Scanned+q.report.Scanned, p.report.Reused+q.report.Reused
		p.report.addObjects(all[k])
		p.files.problem = cmp.Or(p.files.problem, q.files.problem)
	}
	return p.joinEntries(all)
}

// joint combines the progress of several tasks.
type joint struct {
	report      func(done, total int64) // nil: nobody wants to know
	mu          sync.Mutex
	done, total int64
}

// part returns the function to which one task reports how much is done, and of how much.
func (j *joint) part() func(done, total int64) {
	var before, all int64
	return func(done, total int64) {
		j.mu.Lock()
		defer j.mu.Unlock()
		if done = max(done, before); j.report != nil {
			j.done, j.total = j.done+done-before, j.total+total-all
			j.report(j.done, j.total)
		}
		before, all = done, total
	}
}

// joinEntries makes one index of those of the entries, in which it keeps nothing. It is not stored.
func (p *opening) joinEntries(all []*index) (*index, error) {
	rows, members := 0, false
	for _, y := range all {
		rows, members = rows+y.table.rows(), members || y.table.members != nil
	}
	if rows > math.MaxInt32 {
		return nil, errors.New("more than 2147483647 samples")
	}
	x := &index{table: newTable(rows, 0)}
	var err error
	if p.Part.N == 0 {
		x.classes, err = unite(p.src.entries, all)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.src.list, err)
	}
	if members {
		x.table.members = make([]member, 0, rows)
	}
	for k, y := range all {
		p.src.entries[k].take(x.table, y.table, y.Ordered && len(y.table.objects) > 1)
		for kind, n := range y.Ignored {
			x.ignore(kind, n)
		}
		x.ModTime, all[k] = max(x.ModTime, y.ModTime), nil
	}
	x.Ordered = true
	x.table.clip()
	return x, nil
}

// take moves a dataset's rows to the table of all. named says that paths begin with the names of
// archives.
func (s *source) take(t, from *table, named bool) {
	first := int32(len(t.objects))
	t.objects = append(t.objects, from.objects...)
	s.first = t.rows()
	for i := range from.rows() {
		switch path := from.path(i); {
		case filepath.IsAbs(path):
			t.extend(from, i, path)
		case from.isMember(i) && !named:
			t.extend(from, i, s.lead, from.file(i), "/", path)
		default:
			t.extend(from, i, s.lead, path)
		}
		if t.members == nil {
			continue
		}
		m := member{object: -1}
		if from.members != nil {
			m = from.members[i]
			m.object += first
		}
		t.members = append(t.members, m)
	}
	s.end = t.rows()
}

// unite renumbers labels for the classes of all datasets together, and returns these classes: those
// of the first dataset that has all of them, or else all, by name.
func unite(entries []*source, all []*index) (classes []string, err error) {
	named, numbered := -1, -1
	for k, y := range all {
		classes = append(classes, y.classes...)
		if y.classes != nil {
			named = k
		} else if slices.ContainsFunc(y.table.row, func(s sample) bool { return s.label >= 0 }) {
			numbered = k
		}
	}
	if named >= 0 && numbered >= 0 {
		return nil, fmt.Errorf("%w: those of line %d are numbers, those of line %d names such as %s", ErrLabels,
			entries[numbered].line, entries[named].line, all[named].classes[0])
	}
	slices.SortFunc(classes, CompareNames)
	classes = slices.Compact(classes)
	if k := slices.IndexFunc(all, func(y *index) bool { return y.classes != nil && len(y.classes) == len(classes) }); k >= 0 {
		classes = all[k].classes
	}
	numbers := map[string]int32{}
	for label, name := range classes {
		numbers[name] = int32(label)
	}
	for _, y := range all {
		for i := range y.table.row {
			if label := &y.table.row[i].label; *label >= 0 && y.classes != nil {
				*label = numbers[y.classes[*label]]
			}
		}
	}
	return classes, nil
}

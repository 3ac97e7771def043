package dataset

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// earlierFacts holds what files say about a dataset that is being listed again.
type earlierFacts struct {
	tables  []*matcher // of files and objects that are samples, the newest file first
	objects map[object]*contents
	damaged map[string]error // files that could be used only in part
}

// known reads all files about the dataset. whole is the index of the last listing; nil: none.
func (f *factFiles) known(ctx context.Context, whole *index) *earlierFacts {
	type read struct {
		x    *index
		time time.Time
	}
	var files []read
	var indexed time.Time
	if whole != nil {
		files = append(files, read{whole, timeOf(f.whole)})
		if whole.listed {
			indexed = files[0].time
		}
	}
	k := &earlierFacts{objects: map[object]*contents{}, damaged: map[string]error{}}
	for _, path := range f.others() {
		if timeOf(path).Before(indexed) {
			continue // the index has everything in it that still holds
		}
		x, err := loadFacts(ctx, path, f.src)
		if err != nil && ctx.Err() == nil {
			k.damaged[path] = err
			f.log.Warn("not everything that was learned before is used", "file", path, "reason", err)
		}
		if x != nil {
			files = append(files, read{x, timeOf(path)})
		}
	}
	slices.SortStableFunc(files, func(a, b read) int { return b.time.Compare(a.time) })
	for _, r := range files {
		if r.x.objects == nil && r.x.table.rows() > 0 {
			k.tables = append(k.tables, &matcher{table: r.x.table})
		}
		if r.x.objects != nil {
			r.x.gather()
		}
		for i := range r.x.objects {
			o, c := r.x.table.objects[i], &r.x.objects[i]
			if c.len() < c.total {
				continue // the file is truncated, or some rows are not samples
			}
			if other := k.objects[o]; other == nil || other.headers() < c.headers() {
				k.objects[o] = c
			}
		}
	}
	return k
}

func timeOf(path string) time.Time {
	info, err := os.Lstat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// of returns what is known about an object. It is nil if nothing is, or if the object may have
// changed since and trust is not set.
func (k *earlierFacts) of(o object, trust bool) *contents {
	if c := k.objects[o]; c != nil && (trust || !c.unsettled) {
		return c
	}
	return nil
}

// A matcher finds the rows of a table by path. It is fast if asked in the order of the table.
type matcher struct {
	table *table
	next  int
	rows  map[string]int // by path; nil until it is needed
}

func (m *matcher) find(path string) (row int, found bool) {
	if m.next < m.table.rows() && m.table.path(m.next) == path {
		m.next++
		return m.next - 1, true
	}
	if m.rows == nil {
		m.rows = m.table.byPath()
	}
	if row, found = m.rows[path]; found {
		m.next = row + 1
	}
	return row, found
}

// A claim is what a file says about a row, which may have changed since. The zero value says
// nothing.
type claim struct {
	table *table
	row   int32
}

// claims returns what is known about the given rows of a table, by row, and the rows about which
// nothing is. For objects in a store, only claims about the listed version count.
func (k *earlierFacts) claims(t *table, rows []int, remote bool) (all []claim, none []int) {
	if len(k.tables) == 0 {
		return nil, rows
	}
	all = make([]claim, t.rows())
	for _, i := range rows {
		for _, m := range k.tables {
			row, found := m.find(t.path(i))
			if !found || remote && (m.table.row[row].id != t.row[i].id || !t.samePlace(i, m.table, row)) {
				continue
			}
			if all[i].table == nil || !all[i].table.row[all[i].row].id.Known() {
				all[i] = claim{m.table, int32(row)}
			}
			if m.table.row[row].id.Known() {
				break
			}
		}
		if all[i].table == nil {
			none = append(none, i)
		}
	}
	return all, none
}

// lacking says which parts must be made before they can be joined. Of n objects or rows, the ones
// in unknown are missing.
func (f *factFiles) lacking(k *earlierFacts, n int, unknown []int) error {
	return EachPart(indexBase(f.whole), factsExtension, func(part Share, path string) error {
		lo, hi := part.Span(n)
		if at, _ := slices.BinarySearch(unknown, lo); at == len(unknown) || unknown[at] >= hi {
			return nil
		}
		if _, err := os.Lstat(path); err != nil {
			return fs.ErrNotExist
		}
		return cmp.Or(k.damaged[path], errListing)
	})
}

// A journal saves what an opening learns, in case it is interrupted. Its file is made when there is
// something to write.
type journal struct {
	files  *factFiles
	mu     sync.Mutex
	file   *os.File
	facts  *factsWriter
	failed bool
}

// put adds records to the journal.
func (j *journal) put(say func(w *factsWriter)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f, err := j.files, error(nil)
	if j.failed || f.target == "" {
		return
	}
	if j.file == nil {
		dir, name := filepath.Split(f.target)
		if err = os.MkdirAll(dir, 0o700); err == nil {
			j.file, err = os.CreateTemp(dir, name+journalMark+"*")
		}
		if err == nil {
			j.facts = newFactsWriter(j.file, about{}, f.src)
		}
	}
	if err == nil {
		say(j.facts)
		err = j.facts.Flush()
	}
	if err != nil {
		j.failed = true
		f.log.Warn("an interruption would lose what was learned", "reason", err)
	}
}

// headers saves the headers of rows. For archives, it saves again everything known about the ones
// that hold the rows.
func (j *journal) headers(x *index, rows []int) {
	j.put(func(w *factsWriter) {
		slices.Sort(rows)
		if x.objects == nil {
			w.rows(x.table, slices.Values(rows))
			return
		}
		x.gather()
		read := make([]bool, len(x.objects))
		for _, i := range rows {
			read[x.table.members[i].object] = true
		}
		for k := range x.objects {
			if read[k] {
				w.contents(x.table.objects[k], &x.objects[k])
			}
		}
	})
}

func (j *journal) close() {
	if j.file != nil {
		_ = j.file.Close()
	}
}

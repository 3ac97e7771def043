package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/archive"
)

// contents is what an object holds: rows of a table, and how the names of samples relate to paths.
type contents struct {
	archive.Contents          // without the samples and their problems
	names            []string // of the classes that labels number, if Classes does not name them
	total            int      // how many rows the object has
	unsettled        bool     // see stamp
	table            *table
	rows             []int32 // of the table; nil: all
	naming                   // relates the table's paths to names
}

// len is how many rows there are.
func (c *contents) len() int {
	if c.rows == nil {
		return c.table.rows()
	}
	return len(c.rows)
}

// each yields the rows.
func (c *contents) each() iter.Seq[int] {
	return func(yield func(int) bool) {
		for k := range c.len() {
			if c.rows != nil {
				k = int(c.rows[k])
			}
			if !yield(k) {
				return
			}
		}
	}
}

// headers counts the rows whose header is known.
func (c *contents) headers() (n int) {
	for i := range c.each() {
		if c.table.row[i].format != 0 {
			n++
		}
	}
	return n
}

// gather finds the rows of all objects, and how their names relate to paths.
func (x *index) gather() {
	t, first := x.table, make([]int, len(x.objects)+1)
	for _, m := range t.members {
		first[m.object+1]++
	}
	for k := range x.objects {
		first[k+1] += first[k]
	}
	rows, next := make([]int32, t.rows()), slices.Clone(first)
	for i, m := range t.members {
		rows[next[m.object]] = int32(i)
		next[m.object]++
	}
	for k := range x.objects {
		c := &x.objects[k]
		c.table, c.rows, c.naming = t, rows[first[k]:first[k+1]], x.naming
	}
}

// header is the header of the sample at an offset in an object, with the fields of a row.
type header struct {
	at             int64
	height, width  int32
	orient, format uint8
}

// newContents makes the contents of an object that was searched. Hundreds of millions of samples
// may be found before the index is put together, so they take little more memory here than they do
// there.
func newContents(o object, c *archive.Contents, headers []header) contents {
	bytes := 0
	for i := range c.Samples {
		bytes += len(c.Samples[i].Name)
	}
	slices.SortFunc(headers, func(a, b header) int { return cmp.Compare(a.at, b.at) })
	t := newTable(len(c.Samples), int64(bytes))
	t.members = make([]member, 0, len(c.Samples))
	f, numbers := contents{Contents: *c, table: t, total: len(c.Samples)}, map[string]int32{}
	for i := range c.Samples {
		s := &c.Samples[i]
		row := sample{start: int64(len(t.paths)), id: Identity{Size: s.Size, ModTime: o.id.ModTime}, label: int32(s.Label)}
		if s.Class != "" && c.Classes == nil {
			number, known := numbers[s.Class]
			if !known {
				number = int32(len(f.names))
				numbers[s.Class], f.names = number, append(f.names, s.Class)
			}
			row.label = number
		}
		k, seen := slices.BinarySearchFunc(headers, s.Offset, func(h header, at int64) int { return cmp.Compare(h.at, at) })
		if problem := c.Problems[i]; problem != "" {
			t.addBad(i, reason(errors.New(problem)), false)
		} else if seen && s.Coding == archive.Plain {
			h := &headers[k]
			row.height, row.width, row.orient, row.format = h.height, h.width, h.orient, h.format
		}
		t.row, t.paths, t.members = append(t.row, row), append(t.paths, s.Name...), append(t.members, member{0, s.Place})
	}
	f.Samples, f.Problems = nil, nil
	return f
}

// naming says how paths are made from the names of samples in archives.
type naming struct {
	Prefix string // what names begin with and paths do not
	Named  bool   // paths begin with the archive's name and a slash
}

// path returns the path of row i of a table that holds names.
func (n naming) path(t *table, i int) string {
	path := t.path(i)[len(n.Prefix):]
	if n.Named {
		return t.file(i) + "/" + path
	}
	return path
}

// name returns the name of row i of a table that holds paths, in two parts.
func (n naming) name(t *table, i int) (before, rest string) {
	rest = t.path(i)
	if n.Named {
		rest = strings.TrimPrefix(rest[min(len(t.file(i)), len(rest)):], "/")
	}
	return n.Prefix, rest
}

// An order turns rows of archives, which hold names, into rows of the dataset.
type order struct {
	naming
	rows []int32 // in the dataset's order
}

// addContents fills an index with the rows of objects, and leaves nothing in all.
func (x *index) addContents(objects []object, all []contents) error {
	var first *contents
	for k, o := range objects {
		c := &all[k]
		x.Stamp.Unsettled, x.Stamp.Time = x.Stamp.Unsettled || c.unsettled, max(x.Stamp.Time, o.id.ModTime)
		for kind, n := range c.Ignored {
			x.ignore(kind, n)
		}
		if c.len() == 0 {
			continue
		}
		if first == nil {
			first = c
		}
		if c.Ordered != first.Ordered {
			return fmt.Errorf("%s has an order of its own, unlike other files", o.name)
		}
	}
	var fixed []string
	if first != nil {
		x.Ordered, fixed = first.Ordered, first.Classes
	}
	if err := x.number(all, fixed); err != nil {
		return err
	}
	x.table, x.objects = joined(all), all
	x.table.objects = objects
	return nil
}

// findOrder orders the rows of archives, of which it may drop some, and gives them the labels that
// follow from the order. within is the folder in the archives that is the dataset.
func (x *index) findOrder(within string) error {
	o := order{naming: naming{Named: x.Ordered && len(x.objects) > 1}}
	switch {
	case !x.Ordered:
		folders := map[string]bool{}
		for _, c := range x.objects {
			maps.Copy(folders, c.Folders)
		}
		var err error
		if o, err = x.arrange(within, folders, within == ""); err != nil {
			return err
		}
	case within != "":
		return fmt.Errorf("there are no folders, such as %s, in files of this kind", within)
	case o.Named:
		o.rows = make([]int32, x.table.rows())
		for i := range o.rows {
			o.rows[i] = int32(i)
		}
	default: // they stay as they are
		return x.checkPaths()
	}
	x.naming = o.naming
	x.table.arrange(&o)
	return x.checkPaths()
}

// number sets the classes of the index, and translates the labels of samples to these classes.
// Every object must have the classes in fixed.
func (x *index) number(all []contents, fixed []string) error {
	var names []string
	for _, c := range all {
		used := make([]bool, len(c.names))
		for i := range c.each() {
			label := &c.table.row[i].label
			if !c.Ordered {
				*label = -1 // names determine the label
			}
			if *label >= 0 && int(*label) < len(used) {
				used[*label] = true
			}
		}
		for k, name := range c.names {
			if used[k] {
				names = append(names, name)
			}
		}
	}
	slices.SortFunc(names, CompareNames)
	names = slices.Compact(names)
	if x.classes = fixed; fixed == nil && names != nil {
		x.classes = names
	}
	numbers := map[string]int32{}
	for k, name := range names {
		numbers[name] = int32(k)
	}
	for k := range all {
		c := &all[k]
		for i := range c.each() {
			label := &c.table.row[i].label
			switch {
			case *label >= 0 && *label < int32(len(c.names)):
				*label = numbers[c.names[*label]]
			case *label >= 0 && fixed == nil && names != nil:
				return fmt.Errorf("%s: some labels are numbers, others are names", c.table.path(i))
			}
			if *label < -1 || x.classes != nil && int(*label) >= len(x.classes) {
				return fmt.Errorf("%s: label %d is not one of the %d classes", c.table.path(i), *label, len(x.classes))
			}
		}
		if c.len() > 0 && !slices.Equal(c.Classes, fixed) {
			return errors.New("the files do not have the same classes")
		}
		c.names = names
	}
	return nil
}

// joined makes one table of all contents. It drops a table that belongs to only one object as soon
// as it has copied the rows.
func joined(all []contents) *table {
	if len(all) == 1 && all[0].rows == nil {
		return all[0].table
	}
	rows, bytes := 0, 0
	for _, c := range all {
		rows += c.len()
		for i := range c.each() {
			bytes += len(c.Prefix) + len(c.table.path(i))
		}
	}
	t := newTable(rows, int64(bytes))
	t.members = make([]member, 0, rows)
	for k := range all {
		c := &all[k]
		c.addTo(t, k)
		if c.rows == nil {
			c.table.row, c.table.paths, c.table.members = nil, nil, nil
		}
		c.table = nil
	}
	return t
}

// addTo appends the rows to another table as rows of object k.
func (c *contents) addTo(t *table, k int) {
	for i := range c.each() {
		before, rest := c.name(c.table, i)
		t.extend(c.table, i, before, rest)
		m := c.table.members[i]
		m.object = int32(k)
		t.members = append(t.members, m)
	}
}

// arrange puts the rows in an order, and drops those that the order lacks.
func (s *table) arrange(o *order) {
	wanted, order, bytes := make([]bool, s.rows()), slices.Clone(o.rows), 0
	for _, i := range o.rows {
		wanted[i] = true
	}
	for i, is := range wanted { // in the order of memory
		if is {
			bytes += len(o.path(s, i))
		} else {
			order = append(order, int32(i))
		}
	}
	n := len(o.rows)
	paths, starts, bad := make([]byte, 0, bytes), make([]int64, n), map[uint32]badRow{}
	for k, i := range o.rows {
		starts[k] = int64(len(paths))
		paths = append(paths, o.path(s, int(i))...)
		if b, is := s.bad[uint32(i)]; is {
			bad[uint32(k)] = b
		}
	}
	permute(s.row, order)
	if s.members != nil {
		permute(s.members, order)
		s.members = s.members[:n]
	}
	if s.versions.at != nil {
		permute(s.versions.at, order)
		s.versions.at = s.versions.at[:n]
	}
	s.row, s.paths, s.bad = s.row[:n], paths, bad
	for k := range s.row {
		s.row[k].start = starts[k]
	}
}

// permute moves the item at order[k] to k, for all k. order has each position once.
func permute[T any](s []T, order []int32) {
	for first := range order {
		if order[first] < 0 { // it was moved
			continue
		}
		item, k := s[first], int32(first)
		for order[k] != int32(first) {
			from := order[k]
			s[k], order[k] = s[from], ^from
			k = from
		}
		s[k], order[k] = item, ^order[k]
	}
	for k := range order {
		order[k] = ^order[k]
	}
}

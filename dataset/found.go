package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/batchfs/batchfs/internal/archive"
)

// contents is what an object holds: rows lo to hi-1 of a table, with the names that samples have
// there.
type contents struct {
	archive.Contents          // without the samples, and their problems
	names            []string // of the classes that labels are numbers of, where Classes does not say that
	table            *table
	lo, hi           int
	rows             int    // of a file: how many there should be
	unsettled        bool   // see stamp
	dali             string // why DALI's index beside it was not used; "": it was, or there is none
}

// headers is how many of the rows' headers are known.
func (c *contents) headers() (n int) {
	for i := c.lo; i < c.hi; i++ {
		if c.table.row[i].format != 0 {
			n++
		}
	}
	return n
}

// alone says whether the table has nothing else.
func (c *contents) alone() bool { return c.lo == 0 && c.hi == c.table.rows() }

// header is that of the sample at an offset in an object, as a row has it.
type header struct {
	at             int64
	height, width  int32
	orient, format uint8
}

// newContents is what an object holds that was searched. Hundreds of millions of samples may be
// found before the index can be put together, so it takes little more memory than they will there.
func newContents(o object, c *archive.Contents, headers []header) contents {
	bytes := 0
	for i := range c.Samples {
		bytes += len(c.Samples[i].Name)
	}
	slices.SortFunc(headers, func(a, b header) int { return cmp.Compare(a.at, b.at) })
	t := newTable(len(c.Samples), int64(bytes))
	t.members = make([]member, 0, len(c.Samples))
	f, numbers := contents{Contents: *c, table: t, hi: len(c.Samples)}, map[string]int32{}
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

// An order is what makes the rows of archives, which have the names that they have there, those of
// the dataset.
type order struct {
	rows  []int32 // in their order; nil: all, as they are
	skip  int     // how many bytes of the names are no part of the paths
	named bool    // paths begin with the name of the archive
}

// samples is how many rows are samples.
func (x *index) samples() int {
	if x.order != nil && x.order.rows != nil {
		return len(x.order.rows)
	}
	return x.table.rows()
}

// name is the path of row i of a table.
func (o *order) name(t *table, i int) string {
	name := t.path(i)[o.skip:]
	if o.named {
		return t.file(i) + "/" + name
	}
	return name
}

// addContents fills an index with the rows of objects. It keeps nothing in all.
func (x *index) addContents(objects []object, all []contents) error {
	var first *contents
	for k, o := range objects {
		c := &all[k]
		x.Stamp.Unsettled, x.Stamp.Time = x.Stamp.Unsettled || c.unsettled, max(x.Stamp.Time, o.id.ModTime)
		for kind, n := range c.Ignored {
			x.ignore(kind, n)
		}
		if c.lo == c.hi {
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

// findOrder finds out the order of archives' rows, and the labels that follow from it. within is
// the folder in the archives that is the dataset.
func (x *index) findOrder(within string) error {
	o := order{named: x.Ordered && len(x.objects) > 1}
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
		x.Skip, x.Counts = o.skip, make([]int, max(1, len(x.classes)))
		for _, i := range o.rows {
			x.Counts[max(0, x.table.row[i].label)]++
		}
	case within != "":
		return fmt.Errorf("there are no folders, such as %s, in files of this kind", within)
	}
	x.order = &o
	return x.checkNames()
}

// checkNames refuses names in archives that cannot be paths.
func (x *index) checkNames() error {
	for i := range x.table.rows() {
		if x.table.row[i].label == outside {
			continue
		}
		path := x.order.name(x.table, i)
		clean, leaves, err := cleanPath(path)
		if err == nil && (leaves || clean != path) {
			err = fmt.Errorf("%q: %w", path, ErrOutside)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// number sets the classes of the index, and gives samples the labels that they have among these.
// fixed are the classes that all objects have to have.
func (x *index) number(all []contents, fixed []string) error {
	var names []string
	for _, c := range all {
		used := make([]bool, len(c.names))
		for i := c.lo; i < c.hi; i++ {
			label := &c.table.row[i].label
			if !c.Ordered {
				*label = -1 // it follows from the names
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
		for i := c.lo; i < c.hi; i++ {
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
		if c.hi > c.lo && !slices.Equal(c.Classes, fixed) {
			return errors.New("the files do not have the same classes")
		}
		c.names = names
	}
	return nil
}

// joined is one table of all contents, which become parts of it. It drops a table that is of one
// object alone as soon as it has its rows.
func joined(all []contents) *table {
	rows, bytes, one := 0, 0, true
	for _, c := range all {
		one = one && c.table == all[0].table && c.lo == rows
		for i := c.lo; i < c.hi; i++ {
			bytes += len(c.table.path(i))
		}
		rows += c.hi - c.lo
	}
	if one && len(all) > 0 && all[0].table.rows() == rows {
		for k, c := range all {
			for i := c.lo; i < c.hi; i++ {
				c.table.members[i].object = int32(k)
			}
		}
		return all[0].table
	}
	t := newTable(rows, int64(bytes))
	t.members = make([]member, 0, rows)
	for k := range all {
		c := &all[k]
		first := t.rows()
		for i := c.lo; i < c.hi; i++ {
			t.extend(c.table, i, c.table.path(i))
			m := c.table.members[i]
			m.object = int32(k)
			t.members = append(t.members, m)
		}
		if c.alone() {
			c.table.row, c.table.paths, c.table.members = nil, nil, nil
		}
		c.table, c.lo, c.hi = t, first, t.rows()
	}
	return t
}

// arrange makes an order, which drops the rows that are not in it.
func (s *table) arrange(o *order) {
	n, bytes := s.rows(), 0
	if o.rows != nil {
		n = len(o.rows)
	}
	row := func(k int) int {
		if o.rows == nil {
			return k
		}
		return int(o.rows[k])
	}
	for i := range s.rows() { // in the order of memory
		if s.row[i].label != outside {
			bytes += len(o.name(s, i))
		}
	}
	paths, starts, bad := make([]byte, 0, bytes), make([]int64, n), map[uint32]badRow{}
	for k := range n {
		i := row(k)
		starts[k] = int64(len(paths))
		paths = append(paths, o.name(s, i)...)
		if b, is := s.bad[uint32(i)]; is {
			bad[uint32(k)] = b
		}
	}
	if o.rows != nil {
		wanted := make([]bool, s.rows())
		for _, i := range o.rows {
			wanted[i] = true
		}
		order := slices.Clone(o.rows)
		for i, wanted := range wanted {
			if !wanted {
				order = append(order, int32(i))
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

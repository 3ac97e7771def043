package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/archive"
)

// found is what an object holds. The rows of its table have the names that samples have there.
type found struct {
	archive.Contents          // without the samples, and their problems
	names            []string // of the classes that labels are numbers of, where Classes does not say that
	table            *table
	dali             string // why DALI's index beside it was not used; "": it was, or there is none
}

// header is that of the sample at an offset in an object, as a row has it.
type header struct {
	at             int64
	height, width  int32
	orient, format uint8
}

// foundIn is what an object holds that was searched. Hundreds of millions of samples may be found before the index can be put
// together, so it takes little more memory than they will there.
func foundIn(o object, c *archive.Contents, headers []header) found {
	bytes := 0
	for i := range c.Samples {
		bytes += len(c.Samples[i].Name)
	}
	slices.SortFunc(headers, func(a, b header) int { return cmp.Compare(a.at, b.at) })
	t := newTable(len(c.Samples), int64(bytes))
	t.members = make([]member, 0, len(c.Samples))
	f, numbers := found{Contents: *c, table: t}, map[string]int32{}
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

// remember adds what an index says about objects to what is known of them, as if each had been searched by itself. The keys are the
// objects that matter, with nil if nothing is known. The index is not needed for it any more.
func (x *index) remember(known map[object]*found) {
	t := x.table
	byObject := func(a, b member) int { return cmp.Compare(a.object, b.object) }
	if !x.raw() && !x.Ordered || !slices.IsSortedFunc(t.members, byObject) {
		return // other rows do not have the names, nor the order, of archives
	}
	at := 0
	for k, o := range t.objects {
		end := at
		for end < t.rows() && int(t.members[end].object) == k {
			end++
		}
		if f, wanted := known[o]; wanted && f == nil {
			f := x.foundAgain(k, at, end)
			known[o] = &f
		}
		at = end
	}
}

// foundAgain is what object k holds, of which an index has the rows from lo to hi-1.
func (x *index) foundAgain(k, lo, hi int) found {
	o := &x.Objects[k]
	f := found{Contents: archive.Contents{Ordered: x.Ordered, Ignored: o.Ignored, Folders: map[string]bool{}, Unended: o.Unended, Numbers: o.Numbers}}
	for _, name := range o.Folders {
		f.Folders[string(name)] = true
	}
	if x.Numbered {
		f.Classes = x.classes
	}
	lead := ""
	if !x.raw() && len(x.table.objects) > 1 {
		lead = x.table.objects[k].name + "/"
	}
	bytes := 0
	for i := lo; i < hi; i++ {
		bytes += len(x.table.path(i)) - len(lead)
	}
	f.table = newTable(hi-lo, int64(max(0, bytes)))
	f.table.members = make([]member, 0, hi-lo)
	numbers := map[int32]int32{}
	for i := lo; i < hi; i++ {
		f.table.extend(x.table, i, strings.TrimPrefix(x.table.path(i), lead))
		f.table.members = append(f.table.members, member{0, x.table.members[i].Place})
		label := &f.table.row[i-lo].label
		if x.Numbered || x.classes == nil || *label < 0 {
			continue
		}
		number, known := numbers[*label]
		if !known {
			number = int32(len(f.names))
			numbers[*label], f.names = number, append(f.names, x.classes[*label])
		}
		*label = number
	}
	return f
}

// addMembers makes the table of the samples in objects. Of what was found, it keeps nothing in all.
func (x *index) addMembers(objects []object, all []found, within string) error {
	var first *found
	folders := map[string]bool{}
	x.table.objects, x.Objects = objects, nil
	for k, o := range objects {
		f := &all[k]
		fact := objectFact{Name: []byte(o.name), Version: o.version, Size: o.id.Size, ModTime: o.id.ModTime, Ignored: f.Ignored, Unended: f.Unended, Numbers: f.Numbers}
		if x.raw() {
			for _, name := range slices.Sorted(maps.Keys(f.Folders)) {
				fact.Folders = append(fact.Folders, []byte(name))
			}
		}
		x.Objects = append(x.Objects, fact)
		for kind, n := range f.Ignored {
			x.ignore(kind, n)
		}
		maps.Copy(folders, f.Folders)
		if f.table.rows() == 0 {
			continue
		}
		if first == nil {
			first = f
		}
		if f.Ordered != first.Ordered {
			return fmt.Errorf("%s has an order of its own, unlike other files", o.name)
		}
	}
	if first == nil {
		return nil
	}
	x.Ordered, x.Numbered = first.Ordered, first.Classes != nil
	if err := x.number(all, first.Classes); err != nil {
		return err
	}
	x.table = joined(all)
	x.table.objects = objects
	switch {
	case x.raw():
		return nil
	case !x.Ordered:
		return x.arrangeRows(folders, within)
	case within != "":
		return fmt.Errorf("there are no folders, such as %s, in files of this kind", within)
	}
	t, order := x.table, make([]int32, x.table.rows())
	for i := range order {
		order[i] = int32(i)
	}
	return t.arrange(order, func(i int) string {
		if len(objects) == 1 {
			return t.path(i)
		}
		return t.file(i) + "/" + t.path(i)
	})
}

// number sets the classes of the index, and gives samples the labels that they have among these. fixed are the classes
// that all objects have to have.
func (x *index) number(all []found, fixed []string) error {
	var names []string
	for _, f := range all {
		names = append(names, f.names...)
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
	for _, f := range all {
		t := f.table
		for i := range t.row {
			label := &t.row[i].label
			switch {
			case *label >= 0 && *label < int32(len(f.names)):
				*label = numbers[f.names[*label]]
			case *label >= 0 && fixed == nil && names != nil:
				return fmt.Errorf("%s: some labels are numbers, others are names", t.path(i))
			}
			if *label < -1 || x.classes != nil && int(*label) >= len(x.classes) {
				return fmt.Errorf("%s: label %d is not one of the %d classes", t.path(i), *label, len(x.classes))
			}
		}
		if t.rows() > 0 && !slices.Equal(f.Classes, fixed) {
			return errors.New("the files do not have the same classes")
		}
	}
	return nil
}

// joined is one table of all that was found. It drops each column of the others as soon as it has it.
func joined(all []found) *table {
	if len(all) == 1 {
		return all[0].table
	}
	rows, bytes := 0, 0
	for _, f := range all {
		rows, bytes = rows+f.table.rows(), bytes+len(f.table.paths)
	}
	t := newTable(rows, 0)
	at := int64(0)
	for _, f := range all {
		for i, b := range f.table.bad {
			t.bad[uint32(len(t.row))+i] = b
		}
		for _, row := range f.table.row {
			row.start += at
			t.row = append(t.row, row)
		}
		at += int64(len(f.table.paths))
		f.table.row = nil
	}
	t.members = make([]member, 0, rows)
	for k, f := range all {
		for _, m := range f.table.members {
			m.object = int32(k)
			t.members = append(t.members, m)
		}
		f.table.members = nil
	}
	t.paths = make([]byte, 0, bytes)
	for _, f := range all {
		t.paths = append(t.paths, f.table.paths...)
		f.table.paths = nil
	}
	return t
}

// arrangeRows gives rows the order, and the labels, of a directory of their paths, or of a directory in that.
func (x *index) arrangeRows(known map[string]bool, within string) error {
	t, folders := x.table, map[string]bool{}
	for name := range known {
		if name, inside := strings.CutPrefix(name, within); inside {
			folders[name] = true
		}
	}
	name := func(i int) string {
		n, ok := strings.CutPrefix(t.path(i), within)
		if !ok {
			return ""
		}
		return n
	}
	a := arrange(t.rows(), name, folders, within == "")
	if err := a.duplicate(name); err != nil {
		return err
	}
	x.classes = a.classes
	if len(a.order) > 0 {
		x.lifted = strings.Clone(name(int(a.order[0]))[:a.strip])
	}
	for kind, n := range a.ignored {
		x.ignore(kind, n)
	}
	for _, i := range a.order {
		t.row[i].label = a.label[i]
	}
	return t.arrange(a.order, func(i int) string { return name(i)[a.strip:] })
}

// arrange leaves the rows in order, with other paths.
func (s *table) arrange(order []int32, name func(i int) string) error {
	n, bytes, wanted := len(order), 0, make([]bool, s.rows())
	for _, i := range order {
		bytes += len(name(int(i)))
		wanted[i] = true
	}
	paths, starts, bad := make([]byte, 0, bytes), make([]int64, n), map[uint32]badRow{}
	for k, i := range order {
		path := name(int(i))
		clean, outside, err := cleanPath(path)
		if err == nil && (outside || clean != path) {
			err = fmt.Errorf("%q: %w", path, ErrOutside)
		}
		if err != nil {
			return err
		}
		starts[k] = int64(len(paths))
		paths = append(paths, path...)
		if b, is := s.bad[uint32(i)]; is {
			bad[uint32(k)] = b
		}
	}
	for i, wanted := range wanted {
		if !wanted {
			order = append(order, int32(i))
		}
	}
	permute(s.row, order)
	permute(s.members, order)
	s.row, s.members, s.paths, s.bad = s.row[:n], s.members[:n], paths, bad
	for k := range s.row {
		s.row[k].start = starts[k]
	}
	return nil
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

package dataset

import (
	"fmt"
	"slices"
)

// only drops the rows that Options.Only does not want. The stored index has them all, and so serves
// any choice.
func (p *opening) only(x *index) error {
	t := x.table
	o := order{rows: make([]int32, 0, t.rows())}
	for i := range t.rows() {
		if p.Only(t.path(i)) {
			o.rows = append(o.rows, int32(i))
		} else {
			t.row[i].label = outside
		}
	}
	if len(o.rows) == 0 {
		return fmt.Errorf("%s: %w", p.src.name(), ErrNone)
	}
	if p.report.Left = t.rows() - len(o.rows); p.report.Left == 0 {
		return nil
	}
	for _, e := range p.src.entries {
		e.first, _ = slices.BinarySearch(o.rows, int32(e.first))
		e.end, _ = slices.BinarySearch(o.rows, int32(e.end))
	}
	t.arrange(&o)
	t.clip()
	x.Digest = digest(t, x.classes)
	return nil
}

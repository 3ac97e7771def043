package catalog

import (
	"fmt"
	"slices"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fault"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// ArrayOptions are the arrays in a column of a manifest. Annotations are fixed when a dataset is
// opened, but the arrays themselves are read when batches are made, as masks are.
type ArrayOptions struct {
	Name string
	// Dataset holds the arrays, .npy files, indexed with [sample.ProbeArray]; it must outlive the
	// catalog.
	Dataset *dataset.Dataset
	Rows    []int32          // by sample: its array's number in Dataset; -1: none
	Like    layout.NPYHeader // the header of one array: all have its dtype and rank
	Said    string           // a digest of everything else that was read of annotations

	catalog  *Catalog
	ragged   bool
	likeness int // of Like; 0: not computed yet
}

// errArray means that an array differs in kind from those of other samples.
var errArray = fault.New(fault.File, "bad array")

// prepared returns the options for a catalog that already has its dataset and plan.
func (o *ArrayOptions) prepared(c *Catalog) (*ArrayOptions, error) {
	for _, row := range o.Rows {
		if row < 0 {
			continue
		}
		if why := o.Dataset.Unread(int(row)); why != "" {
			return nil, unread(o.Dataset, int(row), why, "and the shape of arrays depends on it")
		}
	}
	own := *o
	own.catalog, own.ragged = c, own.differ()
	return &own, nil
}

// differ reports whether arrays differ in the first dimension.
func (o *ArrayOptions) differ() bool {
	first := -1
	for _, row := range o.Rows {
		if row < 0 {
			continue
		}
		if n, like := o.rowsOf(int(row)); like && first >= 0 && n != first {
			return true
		} else if like {
			first = n
		}
	}
	return false
}

// String describes the array for users, such as "track int16 [*, 3]".
func (o *ArrayOptions) String() string {
	own := *o
	own.ragged = own.differ()
	a := own.described()
	return a.String()
}

// Without counts the samples without an array.
func (o *ArrayOptions) Without() (n int) {
	for _, row := range o.Rows {
		if row < 0 {
			n++
		}
	}
	return n
}

// Condemn adds the samples with bad arrays, according to the index, and why.
func (o *ArrayOptions) Condemn(bad map[int64]string) {
	others := o.String()
	for id, row := range o.Rows {
		if row < 0 || bad[int64(id)] != "" {
			continue
		}
		why := o.Dataset.Problem(int(row))
		if _, like := o.rowsOf(int(row)); why == "" && !like {
			why = "its dtype or its shape is not that of the others, " + others
		}
		if why != "" {
			bad[int64(id)] = o.Dataset.Path(int(row)) + ": " + why
		}
	}
}

// rowsOf is the first dimension of an array, from the index; false: the array is unlike the others.
func (o *ArrayOptions) rowsOf(row int) (n int, like bool) {
	if o.likeness == 0 {
		o.likeness = sample.Likeness(o.Like)
	}
	return sample.ArrayRows(o.Dataset, row, o.likeness)
}

// described is the layout of the array in any batch.
func (o *ArrayOptions) described() layout.Array {
	a := layout.Array{Name: o.Name, Type: o.Like.Type, Shape: o.Like.Shape, Ragged: o.ragged}
	if a.Ragged {
		a.Shape = a.Shape[1:]
	}
	return a
}

// each is the size in bytes of a row of a ragged array, or else of a sample's elements.
func (o *ArrayOptions) each() int64 {
	n := int64(o.Like.Type.Size())
	for i, d := range o.Like.Shape {
		if i > 0 || !o.ragged {
			n *= int64(d)
		}
	}
	return n
}

// rows is how many rows a sample has in batches. An array that is not ragged counts as one row.
func (o *ArrayOptions) rows(id int64) int64 {
	if !o.ragged {
		return 1
	}
	n := 0
	if row := o.Rows[id]; row >= 0 {
		n, _ = o.rowsOf(int(row))
	}
	return int64(n)
}

// Bytes is the size of a sample's array in batches. A sample without an array has nothing if the
// array is ragged, else zeros.
func (o *ArrayOptions) Bytes(id int64) int64 { return o.rows(id) * o.each() }

// offsets says where the rows of each slot begin in a batch, and where the last slot's end. They
// follow the plan, even for bad samples.
func (o *ArrayOptions) offsets(slots []shard.Slot) []int64 {
	at := make([]int64, len(slots)+1)
	for i, s := range slots {
		at[i+1] = at[i] + o.rows(s.ID)
	}
	return at
}

// Place says where the bytes of each slot begin in a batch's array, and where the last slot's end.
// In a ragged array, a slot's room follows the plan: if another sample stands in, the slot has
// zeros.
func (o *ArrayOptions) Place(slots []shard.Slot) []int64 {
	at := o.offsets(slots)
	for i := range at {
		at[i] *= o.each()
	}
	return at
}

// Ragged reports whether samples have arrays of different sizes.
func (o *ArrayOptions) Ragged() bool { return o.ragged }

// Elements returns the elements in the file of a sample's array, Bytes of them; they share its
// memory. The error says how the file contradicts the index, and wraps errArray.
func (o *ArrayOptions) Elements(id int64, file []byte) ([]byte, error) {
	h, err := layout.ReadNPYHeader(file, int64(len(file)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errArray, err)
	}
	a := o.described()
	like := h.Type == a.Type && len(h.Shape) == len(o.Like.Shape) &&
		slices.Equal(h.Shape[len(h.Shape)-len(a.Shape):], a.Shape)
	if n := int64(len(file)) - h.Bytes; !like || n != o.Bytes(id) {
		return nil, fmt.Errorf("%w: it is %s %v, and not %s, as the index says",
			errArray, h.Type, h.Shape, a.String())
	}
	return file[h.Bytes:], nil
}

// settings are what an array's bytes depend on.
func (o *ArrayOptions) settings() map[string]any {
	a := o.described()
	return map[string]any{
		"name": o.Name, "dtype": a.Type.String(), "shape": append([]int{}, a.Shape...),
		"ragged": a.Ragged, "digest": o.Dataset.Digest, "sha256": digestOf(o.Rows),
		"said": o.Said,
	}
}

// arraysOf describes the arrays of a batch, or without k, those of any batch; nil: none.
func (o *Options) arraysOf(k *Key) *[]layout.Array {
	if len(o.Arrays) == 0 {
		return nil
	}
	var slots []shard.Slot
	list := make([]layout.Array, len(o.Arrays))
	for i, a := range o.Arrays {
		list[i] = a.described()
		if !a.ragged || k == nil {
			continue
		}
		if slots == nil {
			slots, _ = a.catalog.Slots(*k)
		}
		list[i].Offsets = a.offsets(slots)
	}
	return &list
}

// ArrayOffsets is the file that says where the rows of each slot begin in a batch's array, by the
// plan. Errors are as in TargetOptions.RowsOf.
func (c *Catalog) ArrayOffsets(k Key, f layout.Form) ([]byte, error) {
	slots, _ := c.Slots(k)
	if err := refused(c, slots); err != nil {
		return nil, err
	}
	return layout.AppendNPY(nil, f, c.Options.SpecIn(c.Spec(k), k, f), layout.Meta{}), nil
}

// names are the names of the arrays, which the extensions of a mount's forms contain.
func (o *Options) names() (names layout.Names) {
	for _, a := range o.Arrays {
		names = append(names, a.Name)
	}
	return names
}

// checkArrays returns an error if two arrays have the same name.
func (o *Options) checkArrays() error {
	names := o.names()
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("two arrays are called %q", name)
		}
	}
	return names.Check()
}

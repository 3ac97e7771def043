package dataset

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// A nested is a column of a Parquet file, or a part of one, whose values are written as JSON. The
// library's own way from columns to values knows no numbers beyond 2^63, and has 53 bits for
// numbers in JSON.
type nested struct {
	*parquet.Column
	parts  []*nested
	leaves int // number of leaves below it
}

// A level says how many of the columns on the way to a part of a column can be null or empty, and
// how many are repeated.
type level struct{ definition, repetition int }

func newNested(c *parquet.Column) (*nested, error) {
	n := &nested{Column: c}
	if c.Leaf() {
		if n.leaves = 1; c.Type().Kind() == parquet.FixedLenByteArray && c.Type().Length() == 2 {
			return nil, fmt.Errorf("column %q is float16; write it as float32", strings.Join(c.Path(), "."))
		}
	}
	for _, column := range c.Columns() {
		part, err := newNested(column)
		if err != nil {
			return nil, err
		}
		n.parts, n.leaves = append(n.parts, part), n.leaves+part.leaves
	}
	return n, nil
}

// logical is what the values are, beyond their stored type; nil: nothing.
func (n *nested) logical() any {
	if is := n.Type().LogicalType(); is != nil {
		return is.Value
	}
	return nil
}

// value returns the value of a row, from the row's values in each leaf.
func (n *nested) value(row [][]parquet.Value, at level) (any, error) {
	switch {
	case n.Repeated():
		return n.list(row, at, n.one)
	case n.Optional():
		at.definition++
		if len(row) > 0 && row[0][0].DefinitionLevel() < at.definition {
			return nil, nil
		}
	}
	return n.one(row, at)
}

// one returns a value that is not null.
func (n *nested) one(row [][]parquet.Value, at level) (any, error) {
	if n.Leaf() {
		return n.leaf(row[0][0])
	}
	if _, isList := n.logical().(*format.ListType); isList && len(n.parts) == 1 && n.parts[0].Repeated() {
		items := n.parts[0]
		if len(items.parts) == 1 { // items are wrapped in a group, except in some old files
			return items.list(row, at, items.parts[0].value)
		}
		return items.list(row, at, items.one)
	}
	fields := make(map[string]any, len(n.parts))
	for _, part := range n.parts {
		value, err := part.value(row[:part.leaves], at)
		if err != nil {
			return nil, err
		}
		fields[part.Name()], row = value, row[part.leaves:]
	}
	return fields, nil
}

// list makes the items of a repeated column.
func (n *nested) list(row [][]parquet.Value, at level, item func([][]parquet.Value, level) (any, error)) ([]any, error) {
	at.definition, at.repetition = at.definition+1, at.repetition+1
	items := []any{}
	if len(row) == 0 || row[0][0].DefinitionLevel() < at.definition {
		return items, nil
	}
	rest, its := slices.Clone(row), make([][]parquet.Value, len(row))
	for len(rest[0]) > 0 {
		for k, values := range rest {
			end := 1
			for end < len(values) && values[end].RepetitionLevel() > at.repetition {
				end++
			}
			its[k], rest[k] = values[:end], values[end:]
		}
		value, err := item(its, at)
		if err != nil {
			return nil, err
		}
		items = append(items, value)
	}
	return items, nil
}

// leaf returns a single value.
func (n *nested) leaf(v parquet.Value) (value any, err error) {
	if v.IsNull() {
		return nil, nil
	}
	switch is := n.logical().(type) {
	case *format.IntType:
		if !is.IsSigned && v.Kind() == parquet.Int64 {
			return v.Uint64(), nil
		}
	case *format.JsonType:
		if !json.Valid(v.ByteArray()) {
			return nil, fmt.Errorf("%s: its value is no JSON", strings.Join(n.Path(), "."))
		}
		return json.RawMessage(v.ByteArray()), nil // numbers may have any number of digits
	}
	if err := n.Type().AssignValue(reflect.ValueOf(&value).Elem(), v); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(n.Path(), "."), err)
	}
	switch v := value.(type) {
	case []byte:
		return string(v), nil
	case float32:
		return number(float64(v)), nil
	case float64:
		return number(v), nil
	}
	return value, nil
}

// number returns a number, or nil if JSON cannot express it.
func number(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return v
}

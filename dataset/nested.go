package dataset

import (
	"encoding/binary"
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
// library's own way from columns to values knows neither numbers beyond 2^63 nor float16, has 53
// bits for numbers in JSON, and makes Go's names of what is in maps.
type nested struct {
	*parquet.Column
	parts  []*nested
	leaves int // number of leaves below it
	isHalf bool
}

// A level says how many of the columns on the way to a part of a column can be null or empty, and
// how many are repeated.
type level struct{ definition, repetition int }

func newNested(file *parquet.File, c *parquet.Column) *nested {
	n := &nested{Column: c}
	if c.Leaf() {
		n.leaves, n.isHalf = 1, isHalf(file, c.Index())
	}
	for _, part := range c.Columns() {
		n.parts = append(n.parts, newNested(file, part))
		n.leaves += n.parts[len(n.parts)-1].leaves
	}
	return n
}

// isHalf says whether a leaf has numbers of 16 bits. The library delivers them as bytes.
func isHalf(file *parquet.File, leaf int) bool {
	for _, e := range file.Metadata().Schema {
		if !e.Type.Valid {
			continue
		}
		if leaf == 0 {
			_, is := e.LogicalType.Value.(*format.Float16Type)
			return is && e.TypeLength.V == 2
		}
		leaf--
	}
	return false
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
	if len(n.parts) == 1 && n.parts[0].Repeated() {
		items, logical := n.parts[0], n.Type().LogicalType()
		if logical != nil {
			switch logical.Value.(type) {
			case *format.ListType:
				return items.list(row, at, items.element(n.Name()))
			case *format.MapType:
				if len(items.parts) == 2 {
					return items.pairs(row, at)
				}
			}
		}
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

// element returns the function that makes an item of a list. Items are wrapped in a group, except
// in some old files.
func (n *nested) element(list string) func([][]parquet.Value, level) (any, error) {
	if len(n.parts) != 1 || n.Name() == "array" || n.Name() == list+"_tuple" {
		return n.one
	}
	return n.parts[0].value
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

// pairs turns a map into an object. Keys become strings, as JSON demands.
func (n *nested) pairs(row [][]parquet.Value, at level) (map[string]any, error) {
	fields := map[string]any{}
	_, err := n.list(row, at, func(row [][]parquet.Value, at level) (any, error) {
		key, values := n.parts[0], row[n.parts[0].leaves:]
		name, err := key.value(row[:key.leaves], at)
		if err != nil {
			return nil, err
		}
		text, isText := name.(string)
		if !isText {
			written, err := json.Marshal(name)
			if err != nil {
				return nil, err
			}
			text = string(written)
		}
		fields[text], err = n.parts[1].value(values, at)
		return nil, err
	})
	return fields, err
}

// leaf returns a single value.
func (n *nested) leaf(v parquet.Value) (value any, err error) {
	if v.IsNull() {
		return nil, nil
	}
	logical := n.Type().LogicalType()
	if logical != nil {
		switch is := logical.Value.(type) {
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
	}
	if n.isHalf {
		return number(halfFloat(binary.LittleEndian.Uint16(v.ByteArray()))), nil
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

// halfFloat decodes a float16.
func halfFloat(bits uint16) float64 {
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	var v float64
	switch exponent {
	case 0:
		v = math.Ldexp(fraction, -24)
	case 31:
		v = math.Inf(1)
		if fraction != 0 {
			v = math.NaN()
		}
	default:
		v = math.Ldexp(1024+fraction, exponent-25)
	}
	if bits>>15 != 0 {
		v = -v
	}
	return v
}

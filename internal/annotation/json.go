package annotation

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unsafe"

	"github.com/go-faster/jx"

	"github.com/batchfs/batchfs/internal/target"
)

// maxCoordinate is beyond any image: larger numbers are not coordinates.
const maxCoordinate = 1 << 24

// A jsonReader reads one JSON value. A value of the wrong kind is skipped, and breaks a rule (bad).
// An error means wrong syntax.
type jsonReader struct {
	jx.Decoder
	bad     string    // the first rule that was broken
	numbers []float64 // of a box
}

// read reads all of a value.
func (d *jsonReader) read(text []byte, value func() error) error {
	d.ResetBytes(text)
	d.bad = ""
	if err := value(); err != nil {
		return plain(err)
	}
	if !errors.Is(d.Skip(), io.EOF) {
		return errors.New("there is more after the end")
	}
	return nil
}

// readObject reads an object, and calls field for its keys.
func (d *jsonReader) readObject(text []byte, field func(key string) error) error {
	return d.read(text, func() error { return d.object(field) })
}

// complain records which rule the entry breaks.
func (d *jsonReader) complain(format string, args ...any) {
	if d.bad == "" {
		d.bad = fmt.Sprintf(format, args...)
	}
}

// at describes where the entry that breaks a rule is, and the rule.
func (d *jsonReader) at(list string, k int) string { return fmt.Sprintf("%s[%d]: %s", list, k, d.bad) }

// object calls field for the keys of an object. field must not retain them.
func (d *jsonReader) object(field func(key string) error) error {
	if d.Next() != jx.Object {
		d.complain("it is no object")
		return d.Skip()
	}
	return d.ObjBytes(func(_ *jx.Decoder, key []byte) error {
		return field(unsafe.String(unsafe.SliceData(key), len(key)))
	})
}

// array calls item for the values of an array.
func (d *jsonReader) array(item func(k int) error) error {
	if d.Next() != jx.Array {
		d.complain("there is something else where a list should be")
		return d.Skip()
	}
	k := -1
	return d.Arr(func(*jx.Decoder) error {
		k++
		return item(k)
	})
}

// most limits how many values of a list are read by item: what is made of one may take many times
// the memory of its text.
func (d *jsonReader) most(n int, item func(k int) error) func(k int) error {
	return func(k int) error {
		if k >= n {
			d.complain("there are more than %d values in a list", n)
			return d.Skip()
		}
		return item(k)
	}
}

// number reads a number; ok is false for anything else, and for infinite ones.
func (d *jsonReader) number() (v float64, ok bool, err error) {
	if d.Next() != jx.Number {
		return 0, false, d.Skip()
	}
	text, err := d.Num()
	v, bad := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), 64)
	return v, bad == nil && err == nil, err
}

// A whole is a whole number, or nothing if the value was something else.
type whole struct {
	n  int64
	ok bool
}

// whole reads a whole number, also in the form 3.0.
func (d *jsonReader) whole() (w whole, err error) {
	if d.Next() != jx.Number {
		return w, d.Skip()
	}
	text, err := d.Num()
	numeral := unsafe.String(unsafe.SliceData(text), len(text))
	if n, bad := strconv.ParseInt(numeral, 10, 64); bad == nil {
		return whole{n, true}, err
	}
	v, bad := strconv.ParseFloat(numeral, 64)
	return whole{int64(v), bad == nil && v == math.Trunc(v) && math.Abs(v) < 1<<53}, err
}

// extent reads an image's height or width.
func (d *jsonReader) extent(to *int) error {
	w, err := d.whole()
	if !w.ok || w.n < 0 || w.n > math.MaxInt32 {
		d.complain("a height or width is no whole number")
		return err
	}
	*to = int(w.n)
	return err
}

// text reads a string.
func (d *jsonReader) text(field string) (string, error) {
	if d.Next() != jx.String {
		d.complain("%s is no string", field)
		return "", d.Skip()
	}
	return d.Str()
}

// coordinates reads a list of numbers and appends them.
func (d *jsonReader) coordinates(field string, to []float64, most int) ([]float64, error) {
	if d.Next() != jx.Array {
		d.complain("%s is no list", field)
		return to, d.Skip()
	}
	err := d.Arr(func(*jx.Decoder) error {
		v, ok, err := d.number()
		switch {
		case !ok || !isCoordinate(v):
			d.complain("%s has something that is no coordinate", field)
		case len(to) == most:
			d.complain("%s has more than %d numbers", field, most)
		default:
			to = append(to, v)
		}
		return err
	})
	return to, err
}

func isCoordinate(v float64) bool { return v >= -maxCoordinate && v <= maxCoordinate } // false for NaN

// box reads a list with x, y, width and height.
func (d *jsonReader) box(field string) (box target.Box, err error) {
	const most = 1 << 10 // there should be 4
	d.numbers, err = d.coordinates(field, d.numbers[:0], most)
	v := d.numbers
	switch {
	case d.bad != "":
	case len(v) != 4:
		d.complain("%s has %d numbers instead of x, y, width, height", field, len(v))
	case v[2] < 0 || v[3] < 0:
		d.complain("%s has a negative size", field)
	default:
		box = target.Box{float32(v[0]), float32(v[1]), float32(v[0] + v[2]), float32(v[1] + v[3])}
	}
	return box, err
}

// flag reads 0 or 1, or false or true, and sets one of an object's flags.
func (d *jsonReader) flag(field string, to *target.Flags, one target.Flags) (err error) {
	var on bool
	if d.Next() == jx.Bool {
		on, err = d.Bool()
	} else {
		var w whole
		if w, err = d.whole(); !w.ok || w.n < 0 || w.n > 1 {
			d.complain("%s is neither 0 nor 1", field)
		}
		on = w.n == 1
	}
	if on {
		*to |= one
	}
	return err
}

// textOf makes an object with one field, a list with one text.
func textOf(key, value string) []byte {
	var e jx.Encoder
	e.Obj(func(e *jx.Encoder) { e.Field(key, func(e *jx.Encoder) { e.Arr(func(e *jx.Encoder) { e.Str(value) }) }) })
	return e.Bytes()
}

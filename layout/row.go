package layout

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/batchfs/batchfs/internal/option"
)

// Normalization is (v-mean)/std of the 8-bit value v, with one mean and one std per channel, in
// units of 0..255. An empty Mean means zeros, an empty Std ones.
type Normalization struct{ Mean, Std []float64 }

// none reports whether values are left unchanged.
func (n Normalization) none() bool { return len(n.Mean) == 0 && len(n.Std) == 0 }

// maxChannels is the maximum number of channels of a row of pixels: gray or RGB.
const maxChannels = 3

// A Converter knows the element of every value of every channel. Since 8 bits have 256 values,
// that covers all of normalisation and dtypes. It never changes, and all workers share it.
//
// Elements are exact. The real number (v-mean)/std, computed from the float64 values of mean and
// std without any error, is rounded once to float32, to nearest even, and that float32 once more
// to the dtype, to nearest even. Values too large become infinities, values too small become
// subnormals or zero.
type Converter struct {
	dtype    DType
	channels int
	norm     Normalization
	bits     [maxChannels][256]uint32      // the element's bits, in the low bytes
	values   [maxChannels]map[uint32]uint8 // the inverse: one of the values that have an element
}

// NewConverter computes the tables for pixels of 1 or 3 channels. The error is an *option.Error:
// the number of means or stds differs from that of channels, one of them is not finite, a std is
// not greater than 0, or normalisation is requested for uint8 elements.
func NewConverter(t DType, channels int, n Normalization) (*Converter, error) {
	if err := check(t, channels, n); err != nil {
		return nil, err
	}
	c := &Converter{dtype: t, channels: channels, norm: n.complete(channels)}
	for k := range channels {
		c.bits[k] = elements(t, c.norm.Mean[k], c.norm.Std[k])
		c.values[k] = make(map[uint32]uint8, len(c.bits[k]))
		for v, bits := range c.bits[k] {
			c.values[k][bits] = uint8(v)
		}
	}
	return c, nil
}

// Direct reports whether rows of a slot are identical to rows of pixels: a decoder may then
// write into the slot where the row belongs, and [Writer.End] does the rest.
func (c *Converter) Direct(o Order, flip bool) bool {
	return c.dtype == Uint8 && !flip && (o == NHWC || c.channels == 1)
}

// complete returns n with a mean and a std for each channel, in newly allocated memory.
func (n Normalization) complete(channels int) Normalization {
	full := Normalization{Mean: make([]float64, channels), Std: slices.Repeat([]float64{1}, channels)}
	copy(full.Mean, n.Mean)
	copy(full.Std, n.Std)
	return full
}

func check(t DType, channels int, n Normalization) error {
	switch {
	case t.Size() == 0 || t == Int32:
		return &option.Error{Field: "dtype", Rule: "uint8, float16, bfloat16 or float32", Value: strconv.Itoa(int(t))}
	case channels != 1 && channels != maxChannels:
		return &option.Error{Field: "channels", Rule: "1 or 3", Value: strconv.Itoa(channels)}
	case t == Uint8 && !n.none():
		rule := "float16, bfloat16 or float32 where there is a mean or a std, since normalising needs a float dtype"
		return &option.Error{Field: "dtype", Rule: rule, Value: t.String()}
	}
	if err := checkValues("mean", n.Mean, channels, "finite for every channel", finite); err != nil {
		return err
	}
	return checkValues("std", n.Std, channels, "greater than 0 and finite for every channel", func(v float64) bool { return v > 0 && finite(v) })
}

func checkValues(field string, values []float64, channels int, rule string, good func(float64) bool) error {
	if len(values) != 0 && len(values) != channels {
		many := "one value, for the one channel"
		if channels > 1 {
			many = fmt.Sprintf("%d values, one for each channel", channels)
		}
		return &option.Error{Field: field, Rule: many, Value: strconv.Itoa(len(values))}
	}
	for _, v := range values {
		if !good(v) {
			return &option.Error{Field: field, Rule: rule, Value: strconv.FormatFloat(v, 'g', -1, 64)}
		}
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Elements returns the elements of a channel, in the low bytes.
func (c *Converter) Elements(channel int) [256]uint32 { return c.bits[channel] }

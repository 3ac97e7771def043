package layout

import (
	"fmt"
	"math"
	"strconv"
)

// Normalization is (v-mean)/std of the 8-bit value v, with one mean and one std a
// channel, in 0..255 units. An empty Mean stands for zeros, an empty Std for ones.
type Normalization struct{ Mean, Std []float64 }

// none reports whether values stay what they are.
func (n Normalization) none() bool { return len(n.Mean) == 0 && len(n.Std) == 0 }

// OptionError says what is wrong with a setting. Field is in the words of the
// command line: "std" is its --std.
type OptionError struct {
	Field string // "std"
	Rule  string // "greater than 0 and finite for every channel"
	Value string // what it was
}

// Error names the field, the rule and the value.
func (e *OptionError) Error() string {
	return fmt.Sprintf("%s must be %s, not %s", e.Field, e.Rule, e.Value)
}

// MaxChannels is how many channels rows of pixels have at most: gray or RGB.
const MaxChannels = 3

// A Converter knows the element of every value of every channel: all there is to
// normalisation and dtypes, since 8 bits have 256 values. It never changes, and is
// shared by all workers.
//
// Elements are exact. The real number (v-mean)/std, computed from the float64
// values of mean and std without any error, is rounded once to float32, to nearest
// even, and that float32 once more to the dtype, to nearest even. What is too large
// becomes an infinity, what is too small a subnormal number or a zero.
type Converter struct {
	dtype    DType
	channels int
	norm     Normalization
	bits     [MaxChannels][256]uint32 // the element's bits, in the low bytes
}

// NewConverter makes the tables for pixels of 1 or 3 channels. The error is an
// *OptionError: another number of means or stds than channels, one of them not
// finite, a std that is not greater than 0, or uint8 elements that would have to be
// normalised.
func NewConverter(t DType, channels int, n Normalization) (*Converter, error) {
	if err := check(t, channels, n); err != nil {
		return nil, err
	}
	c := &Converter{dtype: t, channels: channels, norm: n.complete(channels)}
	for k := range channels {
		c.bits[k] = elements(t, c.norm.Mean[k], c.norm.Std[k])
	}
	return c, nil
}

// DType is the type of the elements.
func (c *Converter) DType() DType { return c.dtype }

// Channels is the number of channels of the pixels.
func (c *Converter) Channels() int { return c.channels }

// Element is the element of value v in a channel: its bits, in the low bytes.
func (c *Converter) Element(channel int, v uint8) uint32 { return c.bits[channel][v] }

// Direct reports whether a row of a slot is the row of pixels itself: a decoder may
// then write into the slot where the row belongs, and [Writer.End] does the rest.
func (c *Converter) Direct(o Order, flip bool) bool {
	return c.dtype == Uint8 && !flip && (o == NHWC || c.channels == 1)
}

// complete returns n with a mean and a std for each channel, in memory of its own.
func (n Normalization) complete(channels int) Normalization {
	full := Normalization{Mean: make([]float64, channels), Std: make([]float64, channels)}
	for k := range full.Std {
		full.Std[k] = 1
	}
	copy(full.Mean, n.Mean)
	copy(full.Std, n.Std)
	return full
}

func check(t DType, channels int, n Normalization) error {
	switch {
	case t.Size() == 0:
		return &OptionError{"dtype", "uint8, float16, bfloat16 or float32", strconv.Itoa(int(t))}
	case channels != 1 && channels != MaxChannels:
		return &OptionError{"channels", "1 or 3", strconv.Itoa(channels)}
	case t == Uint8 && !n.none():
		return &OptionError{"dtype", "float16, bfloat16 or float32 where there is a mean or a std, since normalising needs a float dtype", t.String()}
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
		return &OptionError{field, many, strconv.Itoa(len(values))}
	}
	for _, v := range values {
		if !good(v) {
			return &OptionError{field, rule, strconv.FormatFloat(v, 'g', -1, 64)}
		}
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

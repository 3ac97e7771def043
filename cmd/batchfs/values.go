package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/option"
)

// This file has parsers for the values of flags.

// value accepts texts for which parse returns true.
func value[T any](to *T, rule string, parse func(text string) (T, bool)) parser {
	return func(text string) string {
		v, ok := parse(text)
		if !ok {
			return rule
		}
		*to = v
		return ""
	}
}

// pair is value for two fields.
func pair(a, b *int, rule string, parse func(text string) (int, int, bool)) parser {
	return func(text string) string {
		first, second, ok := parse(text)
		if !ok {
			return rule
		}
		*a, *b = first, second
		return ""
	}
}

// pick accepts one of a few words, separated by bars, and stores the value at the same position.
func pick[T any](to *T, words string, values ...T) parser {
	names := strings.Split(words, "|")
	return value(to, english.WordSeries(names, "or"), func(text string) (v T, ok bool) {
		i := slices.Index(names, text)
		if i < 0 {
			return v, false
		}
		return values[i], true
	})
}

// named accepts the names of the values of a type that knows them.
func named(to flag.Value) parser {
	return func(text string) string {
		if wrong, ok := errors.AsType[*option.Error](to.Set(text)); ok {
			return wrong.Rule
		}
		return ""
	}
}

// among accepts only some of the words that parse does, which are separated by bars.
func among(words string, parse parser) parser {
	names := strings.Split(words, "|")
	return func(text string) string {
		if !slices.Contains(names, text) {
			return english.WordSeries(names, "or")
		}
		return parse(text)
	}
}

// oneOf accepts one of a few words as they are.
func oneOf(to *string, words ...string) parser { return pick(to, strings.Join(words, "|"), words...) }

// anything accepts every text but the empty one.
func anything(to *string, what string) parser {
	return value(to, what, func(text string) (string, bool) { return text, text != "" })
}

// place accepts the name of a file or a directory, but not that of standard output.
func place(to *string, what string) parser {
	accept := anything(to, what)
	return func(text string) string {
		if text == toStdout {
			return what + " (./- for one called -)"
		}
		return accept(text)
	}
}

// number accepts a whole number from least to most.
func number[T ~int | ~int64 | ~uint8 | ~uint32](to *T, least, most int64) parser {
	return func(text string) string {
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err == nil && n >= least && n <= most:
			*to = T(n)
			return ""
		case most >= math.MaxInt32 && n < most: // mention a very large bound only if it is exceeded
			return fmt.Sprintf("a whole number, at least %d", least)
		}
		return fmt.Sprintf("a whole number from %d to %d", least, most)
	}
}

// seed accepts any unsigned number of 64 bits.
func seed(to *uint64) parser {
	return value(to, "a whole number from 0 to 2^64-1", func(text string) (uint64, bool) {
		n, err := strconv.ParseUint(text, 10, 64)
		return n, err == nil
	})
}

// byteSize accepts a size above 0.
func byteSize(to *int64) parser {
	return value(to, "a size in bytes above 0, such as 512MiB or 8GiB", func(text string) (int64, bool) {
		n, ok := parseBytes(text)
		return n, ok && n > 0
	})
}

// duration accepts a time of at least least.
func duration(to *time.Duration, least time.Duration) parser {
	return value(to, fmt.Sprintf("a time of at least %s, such as 500ms or 2s", least), func(text string) (time.Duration, bool) {
		d, err := time.ParseDuration(text)
		return d, err == nil && d >= least
	})
}

// mode accepts file permissions.
func mode(to *uint32) parser {
	return value(to, "an octal number up to 0777", func(text string) (uint32, bool) {
		n, err := strconv.ParseUint(text, 8, 32)
		return uint32(n), err == nil && n <= uint64(fs.ModePerm)
	})
}

// fraction accepts a number from 0 to 1.
func fraction(to *float64) parser {
	return value(to, "a number from 0 to 1", func(text string) (float64, bool) {
		p, ok := parseRatio(text)
		return p, ok && p >= 0 && p <= 1
	})
}

// interval accepts two positive numbers up to most, the first not above the second.
func interval(to *[2]float64, most float64) parser {
	rule := "two numbers above 0, the smaller first, as in 3/4,4/3"
	if most == 1 {
		rule = "two numbers above 0 and at most 1, the smaller first, as in 0.08,1"
	}
	return value(to, rule, func(text string) ([2]float64, bool) {
		low, high, two := strings.Cut(text, ",")
		a, okA := parseRatio(low)
		b, okB := parseRatio(high)
		return [2]float64{a, b}, two && okA && okB && a > 0 && a <= b && b <= most
	})
}

// perChannel accepts numbers separated by commas.
func perChannel(to *[]float64) parser {
	return value(to, "one number per channel, separated by commas", func(text string) (list []float64, ok bool) {
		for part := range strings.SplitSeq(text, ",") {
			n, ok := parseRatio(part)
			if !ok {
				return nil, false
			}
			list = append(list, n)
		}
		return list, true
	})
}

// extent accepts a height and a width in pixels.
func extent(height, width *int, example string) parser {
	return pair(height, width, fmt.Sprintf("a height and a width, each from 1 to %d, as in %s", maxCount, example), parseExtent)
}

// hints accepts one size for all buffers, or one for each.
func hints(to *engine.Hints) parser {
	return value(to, "a size in bytes, or batch=SIZE,input=SIZE,scratch=SIZE", func(text string) (h engine.Hints, ok bool) {
		fields := map[string]*int64{"batch": &h.Batch, "input": &h.Input, "scratch": &h.Scratch}
		for part := range strings.SplitSeq(text, ",") {
			name, size, named := strings.Cut(strings.TrimSpace(part), "=")
			if !named {
				size = name
			}
			n, ok := parseBytes(size)
			switch field := fields[name]; {
			case !ok || n < 1 || named && field == nil:
				return h, false
			case named:
				*field = n
			default:
				h = engine.Hints{Batch: n, Input: n, Scratch: n}
			}
		}
		return h, true
	})
}

// byteUnits are the units of a size in bytes. A bare letter is binary, as in systemd and docker.
var byteUnits = map[string]int64{
	"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// byteForm is a number and a unit. It has no signs, exponents, infinities or hexadecimal.
var byteForm = regexp.MustCompile(`^\s*([0-9.]+)\s*([A-Za-z]*)\s*$`)

// parseBytes reads a size such as 1048576, 512MiB or 1.5GiB.
func parseBytes(s string) (n int64, ok bool) {
	parts := byteForm.FindStringSubmatch(s)
	if parts == nil {
		return 0, false
	}
	size, isNumber := new(big.Rat).SetString(parts[1])
	unit := byteUnits[parts[2]]
	if !isNumber || unit == 0 {
		return 0, false
	}
	size.Mul(size, new(big.Rat).SetInt64(unit))
	whole := new(big.Int).Quo(size.Num(), size.Denom())
	return whole.Int64(), whole.IsInt64()
}

// formatBytes writes a size for people: "3.2 GiB".
func formatBytes(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// parseExtent reads a size in pixels, height first: 375x500.
func parseExtent(s string) (height, width int, ok bool) {
	left, right, ok := strings.Cut(strings.ToLower(s), "x")
	height, errH := strconv.Atoi(left)
	width, errW := strconv.Atoi(right)
	return height, width, ok && errH == nil && errW == nil && min(height, width) > 0 && max(height, width) <= maxCount
}

// parseSpan reads a range of numbers, both ends included: 3, or 0..9 with separator "..".
func parseSpan(s, separator string) (first, last int, ok bool) {
	left, right, several := strings.Cut(s, separator)
	if !several {
		right = left
	}
	a, errA := strconv.ParseUint(left, 10, 31)
	b, errB := strconv.ParseUint(right, 10, 31)
	return int(a), int(b), errA == nil && errB == nil && a <= b
}

// parseRatio reads a finite number, or a fraction: "0.08", "4/3".
func parseRatio(text string) (float64, bool) {
	above, below, fraction := strings.Cut(strings.TrimSpace(text), "/")
	n, err := strconv.ParseFloat(above, 64)
	if err == nil && fraction {
		var d float64
		if d, err = strconv.ParseFloat(below, 64); err == nil {
			n /= d
		}
	}
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}

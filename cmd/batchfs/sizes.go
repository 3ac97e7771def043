package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// byteUnits are the suffixes of a size in bytes, longest first. A bare letter is binary, as
// in systemd and docker; KB, MB and GB are decimal.
var byteUnits = []struct {
	suffix string
	factor float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40},
	{"B", 1},
}

// parseBytes reads a size such as 1048576, 512MiB or 1.5GiB.
func parseBytes(s string) (int64, error) {
	number, factor := strings.TrimSpace(s), 1.0
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	// Digits and a point only: no signs, exponents, infinities or hexadecimal.
	if strings.Trim(number, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is no size in bytes", s)
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && n <= math.MaxInt64/int64(factor) {
		return n * int64(factor), nil
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || n*factor >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is no size in bytes", s)
	}
	return int64(n * factor), nil
}

// formatBytes writes a size for people: "3.2 GiB".
func formatBytes(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// parseExtent reads a size in pixels, height first: 375x500.
func parseExtent(s string) (height, width int, ok bool) {
	left, right, ok := strings.Cut(strings.ToLower(s), "x")
	height, errH := strconv.Atoi(left)
	width, errW := strconv.Atoi(right)
	return height, width, ok && errH == nil && errW == nil && min(height, width) > 0 && max(height, width) <= maxExtent
}

// maxExtent exceeds the largest side that any readable format allows.
const maxExtent = 1 << 20

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

package main

import (
	"math"
	"testing"
)

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "1": 1, "1048576": 1 << 20, "512B": 512, "4K": 4 << 10, "4KiB": 4 << 10, "4KB": 4000,
		"512MiB": 512 << 20, "8GiB": 8 << 30, "8G": 8 << 30, "8GB": 8e9, "1TiB": 1 << 40, "1.5GiB": 3 << 29,
		" 2 MiB ": 2 << 20, "010": 10, ".5K": 512, "0.5K": 512, "9223372036854775807": math.MaxInt64,
	} {
		if got, ok := parseBytes(in); !ok || got != want {
			t.Errorf("%q is %d, %v; want %d", in, got, ok, want)
		}
	}
	for _, in := range []string{
		"", "12q", "GiB", "-1", "-1GiB", "1e9", "0x10", "inf", "NaN", "1_000", "1,5GiB", "8gib", "8 G iB", "1.2.3M",
		"9223372036854775808", "8388608TiB", "99999999999999999999999T", "+5",
	} {
		if got, ok := parseBytes(in); ok {
			t.Errorf("%q is taken for %d bytes", in, got)
		}
	}
}

func TestFormatBytes(t *testing.T) {
	for in, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB", math.MaxInt64: "8.0 EiB",
	} {
		if got := formatBytes(in); got != want {
			t.Errorf("%d is %q, want %q", in, got, want)
		}
	}
}

func TestParseExtent(t *testing.T) {
	for in, want := range map[string][2]int{"375x500": {375, 500}, "1x1": {1, 1}, "224X224": {224, 224}} {
		if h, w, ok := parseExtent(in); !ok || h != want[0] || w != want[1] {
			t.Errorf("%q is %dx%d, %v", in, h, w, ok)
		}
	}
	for _, in := range []string{"", "x", "224", "0x5", "5x0", "-1x5", "5x", "x5", "5x5x5", "5 x 5", "1048577x1", "axb", "99999999999999999999x1"} {
		if h, w, ok := parseExtent(in); ok {
			t.Errorf("%q is taken for %dx%d", in, h, w)
		}
	}
}

func TestParseSpan(t *testing.T) {
	for in, want := range map[string][2]int{"0": {0, 0}, "7": {7, 7}, "0..9": {0, 9}, "3..3": {3, 3}} {
		if a, b, ok := parseSpan(in, ".."); !ok || a != want[0] || b != want[1] {
			t.Errorf("%q is %d..%d, %v", in, a, b, ok)
		}
	}
	for _, in := range []string{"", "-1", "..", "1..", "..1", "2..1", "1..2..3", "1...3", "a", "2147483648", "+1"} {
		if a, b, ok := parseSpan(in, ".."); ok {
			t.Errorf("%q is taken for %d..%d", in, a, b)
		}
	}
}

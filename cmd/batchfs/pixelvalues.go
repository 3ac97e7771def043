package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/batchfs/batchfs/layout"
)

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

// interval reads two positive numbers, the first not above the second.
func (v *flagValues) interval(name string, most float64) [2]float64 {
	low, high, two := strings.Cut(v.text(name), ",")
	a, okA := parseRatio(low)
	b, okB := parseRatio(high)
	if !two || !okA || !okB || a <= 0 || a > b || b > most {
		rule := "two numbers above 0, the smaller first, as in 3/4,4/3"
		if most == 1 {
			rule = "two numbers above 0 and at most 1, the smaller first, as in 0.08,1"
		}
		v.refuse(badValue(name, rule, v.text(name)))
		return [2]float64{}
	}
	return [2]float64{a, b}
}

// fraction reads a probability.
func (v *flagValues) fraction(name string) float64 {
	p, ok := parseRatio(v.text(name))
	if !ok || p < 0 || p > 1 {
		v.refuse(badValue(name, "a number from 0 to 1", v.text(name)))
		return 0
	}
	return p
}

// imageNet is the meaning of --normalize imagenet, in units of 0..255.
var imageNet = layout.Normalization{
	Mean: []float64{0.485 * 255, 0.456 * 255, 0.406 * 255},
	Std:  []float64{0.229 * 255, 0.224 * 255, 0.225 * 255},
}

// normalization reads --mean, --std and --normalize.
func (v *flagValues) normalization(channels int, t layout.DType) layout.Normalization {
	n := layout.Normalization{Mean: v.perChannel("mean", channels), Std: v.perChannel("std", channels)}
	usual := choice(v, "normalize", word("none"), word("imagenet")) == "imagenet"
	switch {
	case usual && (v.given("mean") || v.given("std")):
		v.refuse(usage("--normalize imagenet has a mean and a std of its own: leave out --mean and --std"))
	case usual && channels != len(imageNet.Mean):
		v.refuse(usage("--normalize imagenet is for three channels, not for --color gray"))
	case usual:
		n = imageNet
	}
	if t == layout.Uint8 && (len(n.Mean) > 0 || len(n.Std) > 0) {
		v.refuse(usage("--mean, --std and --normalize need --dtype float16, bfloat16 or float32: uint8 holds the pixels as they are"))
	}
	for _, s := range n.Std {
		if s <= 0 {
			v.refuse(badValue("std", "above 0", v.text("std")))
		}
	}
	return n
}

// perChannel reads one number per channel; nil if the flag was not given.
func (v *flagValues) perChannel(name string, channels int) []float64 {
	if !v.given(name) {
		return nil
	}
	parts := strings.Split(v.text(name), ",")
	list := make([]float64, len(parts))
	for i, part := range parts {
		var ok bool
		if list[i], ok = parseRatio(part); !ok {
			list = nil
			break
		}
	}
	if len(list) != channels {
		rule := fmt.Sprintf("%d numbers, one a channel, separated by commas", channels)
		if channels == 1 {
			rule = "one number, for the one channel"
		}
		v.refuse(badValue(name, rule, v.text(name)))
		return nil
	}
	return list
}

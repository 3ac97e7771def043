package resample

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/internal/pythons"
)

// pillow runs the cases listed in a file: a source, its crop before resizing, the size, and the
// crop after resizing.
const pillow = `
import json, os, sys
from PIL import Image
for case in json.load(open(sys.argv[1])):
    raw = open(case["source"], "rb").read()
    image = Image.frombytes("RGB" if case["channels"] == 3 else "L", (case["width"], case["height"]), raw)
    image = image.crop(case["before"]).resize(case["size"], Image.BILINEAR).crop(case["after"])
    open(case["source"] + ".out", "wb").write(image.tobytes())
print("all good")
`

type pillowCase struct {
	Source   string `json:"source"`
	Channels int    `json:"channels"`
	Width    int    `json:"width"`
	Height   int    `json:"height"`
	Before   [4]int `json:"before"` // left, top, right, bottom
	Size     [2]int `json:"size"`   // width, height
	After    [4]int `json:"after"`

	transform Transform
	image     Image
}

// runCases has a Python program make the results of cases, whose list it reads from a file.
func runCases(t *testing.T, python, program, file string, cases any) {
	t.Helper()
	list, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, list, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(python, "-c", program, file).CombinedOutput(); err != nil || string(out) != "all good\n" {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestAgainstPillow: within 2 levels of Image.resize(BILINEAR), on noise, in every mode.
func TestAgainstPillow(t *testing.T) {
	python := pythons.Need(t, "PIL")
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(13, 14))
	var cases []*pillowCase
	add := func(h, w, channels int, o Options) {
		c := newPillowCase(r, h, w, channels, o)
		c.Source = filepath.Join(dir, fmt.Sprint(len(cases)))
		if err := os.WriteFile(c.Source, c.image.Pix, 0o600); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	add(375, 500, 3, Options{Mode: Stretch, Height: 224, Width: 224})
	add(375, 500, 3, Options{Mode: NotSmaller, Height: 224, Width: 224})
	add(375, 500, 3, randomCrop(3))
	add(20, 4000, 3, Options{Mode: Stretch, Height: 30, Width: 20})
	for n := range 80 {
		o := randomCrop(uint64(n))
		o.Mode, o.Height, o.Width = []Mode{Stretch, NotLarger, NotSmaller, RandomResizedCrop}[n%4], 1+r.IntN(150), 1+r.IntN(150)
		add(1+r.IntN(200), 1+r.IntN(200), 1+2*(n&1), o)
	}
	runCases(t, python, pillow, filepath.Join(dir, "cases"), cases)
	b := newBench(t)
	for _, c := range cases {
		want, err := os.ReadFile(c.Source + ".out")
		if err != nil {
			t.Fatal(err)
		}
		got := b.resize(t, Fastest, c.image, c.transform)
		if len(got) != len(want) {
			t.Fatalf("%+v: %d bytes, Pillow makes %d", c, len(got), len(want))
		}
		if d := farthest(got, want); d > 2 {
			t.Errorf("%dx%d, %+v: %d levels from Pillow", c.Height, c.Width, c.transform, d)
		}
	}
}

func newPillowCase(r *rand.Rand, h, w, channels int, o Options) *pillowCase {
	src := noise(r, h, w, channels)
	if src.Stride != w*channels {
		src.Stride = w * channels
		src.Pix = src.Pix[:h*src.Stride]
	}
	tr := o.Choose(0, r.Int64N(1000), h, w)
	height, width := o.Size(h, w)
	c := &pillowCase{
		Channels: channels, Width: w, Height: h, transform: tr, image: src,
		Before: [4]int{0, 0, w, h}, Size: [2]int{width, height}, After: [4]int{0, 0, width, height},
	}
	switch o.Mode {
	case RandomResizedCrop:
		y, x, ch, cw := int(tr.Crop[0]), int(tr.Crop[1]), int(tr.Crop[2]), int(tr.Crop[3])
		c.Before = [4]int{x, y, x + cw, y + ch}
	case NotSmaller:
		rh, rw := cover(h, w, height, width)
		y, x := (rh-height+1)/2, (rw-width+1)/2
		c.Size, c.After = [2]int{rw, rh}, [4]int{x, y, x + width, y + height}
	}
	return c
}

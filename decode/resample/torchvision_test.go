package resample

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"

	"github.com/batchfs/batchfs/internal/kernel"
)

// centreCrops runs the cases listed in a file, on images, on tensors of bytes, and on tensors of
// real numbers, which are rounded at the end.
const centreCrops = `
import json, sys, torch
from PIL import Image
from torchvision import transforms as T
torch.set_num_threads(1)
for case in json.load(open(sys.argv[1])):
    steps = T.Compose([T.Resize(case["to"], antialias=True), T.CenterCrop(case["size"])])
    raw = open(case["source"], "rb").read()
    tensor = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(case["height"], case["width"], 3).permute(2, 0, 1)
    image = Image.frombytes("RGB", (case["width"], case["height"]), raw)
    with open(case["source"] + ".out", "wb") as out:
        out.write(steps(image).tobytes())
        for result in (steps(tensor), steps(tensor.float()).round().clamp(0, 255).byte()):
            out.write(bytes(result.permute(1, 2, 0).contiguous().numpy()))
print("all good")
`

// runCases runs a Python program on cases, whose list it reads from a file.
func runCases(t *testing.T, python, program, file string, cases any) {
	t.Helper()
	list, err := json.Marshal(cases)
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(file, list, 0o600))
	if out, err := exec.Command(python, "-c", program, file).CombinedOutput(); err != nil || string(out) != "all good\n" {
		t.Fatalf("%v\n%s", err, out)
	}
}

type centreCropCase struct {
	Source string `json:"source"`
	Height int    `json:"height"`
	Width  int    `json:"width"`
	To     int    `json:"to"`
	Size   [2]int `json:"size"` // height, width

	image Image
}

func (c *centreCropCase) options() Options {
	return Options{Mode: CenterCrop, Height: c.Size[0], Width: c.Size[1], ResizeTo: c.To}
}

func centreCropCases(dir string) (cases []*centreCropCase) {
	r := rand.New(rand.NewPCG(15, 16))
	add := func(h, w, to, height, width int) {
		src := noise(r, h, w, 3)
		src.Stride = w * 3
		src.Pix = src.Pix[:h*src.Stride]
		source := filepath.Join(dir, fmt.Sprint(len(cases)))
		cases = append(cases, &centreCropCase{source, h, w, to, [2]int{height, width}, src})
	}
	for _, size := range [][2]int{
		{375, 500}, {500, 375}, {256, 256}, {256, 341}, {333, 500}, {1, 1}, {3, 900}, {900, 3}, {50, 71}, {255, 257}, {900, 301},
	} {
		add(size[0], size[1], 256, 224, 224)
	}
	for range 150 {
		to := 1 + r.IntN(90)
		add(1+r.IntN(200), 1+r.IntN(200), to, 1+r.IntN(to), 1+r.IntN(to))
	}
	return cases
}

// TestCentreCropsOfTorchvision: the pixels are within a level of those of Resize and CenterCrop, on
// noise, where a crop that is off by one pixel differs by a hundred levels.
func TestCentreCropsOfTorchvision(t *testing.T) {
	python := testkit.Python(t, "torchvision", "PIL")
	dir := t.TempDir()
	cases := centreCropCases(dir)
	for _, c := range cases {
		testkit.Must(t, os.WriteFile(c.Source, c.image.Pix, 0o600))
	}
	runCases(t, python, centreCrops, filepath.Join(dir, "cases"), cases)
	b := newBench(t)
	for _, c := range cases {
		want, err := os.ReadFile(c.Source + ".out")
		testkit.Must(t, err)
		got := b.resize(t, kernel.Fastest, c.image, c.options().Choose(0, 0, c.Height, c.Width))
		if len(want) != 3*len(got) {
			t.Fatalf("%+v: %d bytes, torchvision makes %d three times", c.options(), len(got), len(want))
		}
		for i := range 3 {
			if d := farthest(got, want[i*len(got):]); d > 1 {
				t.Errorf("%dx%d, %+v: %d levels from result %d of torchvision", c.Height, c.Width, c.options(), d, i)
			}
		}
	}
}

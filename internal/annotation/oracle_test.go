package annotation

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/batchfs/batchfs/internal/target"
)

var plainly = cmp.Options{cmpopts.IgnoreUnexported(said{}), cmpopts.EquateApprox(0, 1e-4), cmpopts.EquateEmpty()}

// TestVOC against torchvision, with and without one of its lists.
func TestVOC(t *testing.T) {
	dir := t.TempDir()
	want := oracle(t, "voc", dir)
	root := filepath.Join(dir, "VOCdevkit/VOC2012")
	o := Options{Kinds: kindsOf(target.Masks, target.Boxes), Files: []string{root + "/ImageSets/Segmentation/train.txt"}}
	for _, path := range []string{root, root + "/JPEGImages"} {
		f, got := find(t, path, o)
		for name := range got {
			if f.only(name+".jpg") != (want[name].Objects != nil) {
				t.Errorf("whether %s is a sample", name)
			}
			if !f.only(name + ".jpg") {
				delete(got, name)
			}
		}
		if diff := cmp.Diff(want, got, plainly); diff != "" {
			t.Error(diff)
		}
		if f.Layout != "Pascal VOC" || f.Images != root+"/JPEGImages" || f.Masks.Path != root+"/SegmentationClass" || len(f.Classes) != 20 || len(f.MaskClasses) != 21 {
			t.Errorf("%+v", f)
		}
	}
	if f, got := find(t, root, Options{Kinds: o.Kinds}); len(got) != 5 || !f.only("2007_000004.jpg") {
		t.Errorf("without a list there are %d", len(got))
	}
}

// TestCityscapes against torchvision.
func TestCityscapes(t *testing.T) {
	dir := t.TempDir()
	want := oracle(t, "cityscapes", dir)
	o := Options{Kinds: kindsOf(target.Masks, target.Boxes)}
	for _, path := range []string{dir, dir + "/leftImg8bit", dir + "/leftImg8bit/train"} {
		f, got := find(t, path, o)
		if diff := cmp.Diff(want, got, plainly); diff != "" {
			t.Error(diff)
		}
		if !f.only("aachen/aachen_000000_000019_leftImg8bit.png") || f.only("aachen/aachen_000009_000019_leftImg8bit.png") || f.Values != nil ||
			f.Images != dir+"/leftImg8bit/train" || !f.Masks.only("x/y_gtFine_labelIds.png") || f.Masks.only("x/y_gtFine_instanceIds.png") {
			t.Errorf("%+v", f)
		}
	}
	o.LabelMap = "trainids"
	f, _ := find(t, dir, o)
	if got := fmt.Sprint(f.Values); got != "[-1 -1 -1 -1 -1 -1 -1 0 1 -1 -1 2 3 4 -1 -1 -1 5 -1 6 7 8 9 10 11 12 13 14 15 -1 -1 16 17 18]" || len(f.MaskClasses) != 19 {
		t.Error(got, f.MaskClasses)
	}
	o = Options{Kinds: kindsOf(target.Masks), Files: []string{dir + "/gtFine/train/*_gtFine_instanceIds.png"}}
	f, got := find(t, dir+"/leftImg8bit/train", o)
	if m := got["bochum/bochum_000000_000019"].Mask; m != "bochum/bochum_000000_000019_gtFine_instanceIds.png" || f.MaskClasses != nil || !f.only("bochum/bochum_000000_000019_leftImg8bit.png") {
		t.Errorf("%q: %+v", m, f)
	}
}

// TestCOCO against pycocotools.
func TestCOCO(t *testing.T) {
	dir := t.TempDir()
	want := oracle(t, "coco", dir, "pycocotools")
	for _, o := range []Options{
		{Kinds: kindsOf(target.Masks, target.Boxes)},
		{Kinds: kindsOf(target.Masks, target.Boxes, target.Keypoints, target.Text)},
		{Kinds: kindsOf(target.Masks, target.Boxes, target.Keypoints, target.Text), Files: []string{
			dir + "/annotations/person_keypoints_train2017.json", dir + "/annotations/captions_train2017.json",
		}},
	} {
		f, got := find(t, dir+"/train2017", o)
		if !f.only("absent.jpg") || f.only("unlisted.jpg") || fmt.Sprint(f.Classes) != "[c1 c17 c90]" || fmt.Sprint(f.MaskClasses) != "[background c1 c17 c90]" {
			t.Errorf("%+v", f)
		}
		delete(got, "absent.jpg")
		for name, g := range got {
			for k, s := range g.shapes {
				g.Objects[k].Shape = &shape{Class: int(s.Class), Pixels: pixelsOf(s, g.Size)}
			}
			got[name] = g
		}
		expected := map[string]said{}
		for name, w := range want {
			w.Objects = slices.Clone(w.Objects)
			for k := range w.Objects {
				if !o.Kinds[target.Keypoints] {
					w.Objects[k].Keypoints = nil
				}
			}
			if !o.Kinds[target.Text] {
				w.Text = ""
			}
			expected[name] = w
		}
		if diff := cmp.Diff(expected, got, plainly); diff != "" {
			t.Error(diff)
		}
	}
	skipping, _ := find(t, dir+"/train2017", Options{Kinds: kindsOf(target.Boxes), SkipEmpty: true})
	if skipping.only("000000000034.jpg") || !skipping.only("000000000009.jpg") {
		t.Error("an image without objects is a sample, or one with objects is none")
	}
	if err := findError(t, dir, Options{Kinds: kindsOf(target.Arrays)}); !strings.Contains(err.Error(), "no arrays") {
		t.Error(err)
	}
}

// pixelsOf are the pixels of a shape, column by column.
func pixelsOf(s target.Shape, size []int) (pixels []int) {
	drawn := make([]byte, size[0]*size[1])
	s.Class = 1
	if err := target.Draw(drawn, size[0], size[1], []target.Shape{s}); err != nil {
		panic(err)
	}
	for x := range size[1] {
		for y := range size[0] {
			pixels = append(pixels, int(drawn[y*size[1]+x]))
		}
	}
	return pixels
}

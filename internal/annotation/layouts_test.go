package annotation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/target"
)

var masks, boxes = Options{Kinds: kindsOf(target.Masks)}, Options{Kinds: kindsOf(target.Boxes)}

// TestFolderOfMasks: in the usual places, under the usual names, and where they are said to be.
func TestFolderOfMasks(t *testing.T) {
	for _, c := range []struct {
		dataset, image string // the image that has a mask
		masks, mask    string // where it is
		others         []string
		given          string
	}{
		{"d", "a.jpg", "d/masks", "a.png", []string{"d/images/a.jpg", "d/images/b.jpg", "d/masks/c.png"}, ""},
		{"d/images", "x/a.b.jpg", "d/masks", "x/a.b.png", []string{"d/images/x/a.b.jpg"}, ""},
		{"d/images/train", "a.png", "d/labels/train", "a.png", []string{"d/images/train/a.png", "d/images/val/a.png"}, ""},
		{"d/train_images", "a.jpg", "d/train_masks", "a_mask.png", []string{"d/train_images/a.jpg", "d/train_masks/b_mask.png"}, ""},
		{"d", "a.jpg.bfs", "d/masks", "a.png.bfs", []string{"d/images/a.jpg.bfs"}, ""},
		{"d/photos", "a.jpg", "d/other", "a-s.png", []string{"d/photos/a.jpg", "d/other/a-i.png"}, "d/other/*-s.png"},
		{"d/photos", "a.jpg", "d/other", "a.png", []string{"d/photos/a.jpg"}, "d/other"},
	} {
		dir := t.TempDir()
		files := map[string]string{c.masks + "/" + c.mask: ""}
		for _, name := range c.others {
			files[name] = ""
		}
		write(t, dir, files)
		o := masks
		if c.given != "" {
			o.Files = []string{filepath.Join(dir, c.given)}
		}
		f, got := find(t, filepath.Join(dir, c.dataset), o)
		if m := got[f.Name(c.image)].Mask; m != c.mask || f.Masks.Path != filepath.Join(dir, c.masks) || !f.Only(c.image) || f.Only("b.jpg") && !strings.Contains(f.Sources[0], "_mask") || !f.Masks.Only(c.mask) {
			t.Errorf("%+v: the mask is %q, in %+v; %+v", c, m, f.Masks, f)
		}
	}
}

// TestRoots: of several folders of images, none is taken; the error names them.
func TestRoots(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"city/leftImg8bit/train/a/1.png": "", "city/leftImg8bit/val/a/1.png": "", "city/gtFine/train/a/1.png": "",
		"coco/val2017/1.jpg": "", "coco/train2017/1.jpg": "", "one/images/val/1.jpg": "", "one/labels/val/1.txt": "", "plain/cat/1.jpg": "",
	})
	for path, want := range map[string][]string{
		"city": {"leftImg8bit/train", "leftImg8bit/val"}, "city/leftImg8bit": {"train", "val"}, "coco": {"train2017", "val2017"},
	} {
		several, ok := errors.AsType[*ImagesError](findError(t, filepath.Join(dir, path), masks))
		if !ok || !slices.Equal(several.Images, want) {
			t.Errorf("%s: %+v", path, several)
		}
	}
	if err := os.Symlink(dir+"/one/images/val", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if f, _ := find(t, dir+"/link", boxes); f.Images != dir+"/link" || !f.Only("1.jpg") {
		t.Errorf("%+v", f)
	}
	write(t, dir, map[string]string{"plain/images/1.jpg": "", "plain/metadata.csv": "file_name,boxes\nimages/1.jpg,\"[[0,0,1,1]]\"\n"})
	if f, _ := find(t, dir+"/plain", boxes); f.Images != dir+"/plain" || !f.Only("images/1.jpg") {
		t.Errorf("%+v", f)
	}
	if f, _ := find(t, dir+"/one", boxes); f.Images != dir+"/one/images/val" {
		t.Errorf("%+v", f)
	}
	for _, path := range []string{"plain/cat", "absent"} {
		if err := findError(t, filepath.Join(dir, path), boxes); !strings.Contains(err.Error(), "no annotations found") {
			t.Error(err)
		}
	}
	if lacks, ok := errors.AsType[*KindError](findError(t, dir+"/one", Options{Kinds: kindsOf(target.Masks, target.Text)})); !ok || lacks.Error() != dir+"/one: it has no masks, text; as YOLO, it has boxes" {
		t.Error(lacks)
	}
}

// TestADE: 0 is no class, and the others are numbered from 0.
func TestADE(t *testing.T) {
	dir := t.TempDir()
	table := "Idx\tRatio\tTrain\tVal\tName\n"
	for k := 1; k <= 150; k++ {
		table += fmt.Sprintf("%d\t0.1\t1\t1\tclass %d\n", k, k)
	}
	write(t, dir, map[string]string{
		"objectInfo150.txt": table, "images/training/ADE_train_00000001.jpg": "", "annotations/training/ADE_train_00000001.png": "",
	})
	f, got := find(t, dir, masks)
	if m := got["ADE_train_00000001"].Mask; m != "ADE_train_00000001.png" || f.Layout != "ADE20K" || f.MaskClasses[0] != "class 1" || len(f.Values) != 151 || f.Values[0] != -1 || f.Values[150] != 149 {
		t.Errorf("%q, %+v", m, f)
	}
}

// TestYOLO: boxes, polygons, keypoints, classes in three ways, and what is none of them.
func TestYOLO(t *testing.T) {
	for _, c := range []struct {
		about, line string
		want        []object
		bad         string
		classes     string
	}{
		{"names: [cat, dog]", "1 0.5 0.25 0.5 0.5\n\n0 1 1 0.5 0.25\r\n", []object{
			{Box: []float32{.25, 0, .75, .5}, Label: 1}, {Box: []float32{.75, .875, 1.25, 1.125}, ID: 1},
		}, "", "[cat dog]"},
		{"names:\n  0: cat\n  1: dog", "1 0.5 0.5 0.75 0.25 0.25 0.75", []object{{Box: []float32{.25, .25, .75, .75}, Label: 1}}, "", "[cat dog]"},
		{"kpt_shape: [2, 3]\nnames: {0: cat}", "0 0.5 0.5 1 1 0.5 0.25 2 0 0 0", []object{
			{Box: []float32{0, 0, 1, 1}, Keypoints: [][]float32{{.5, .25, 2}, {0, 0, 0}}},
		}, "", "[cat]"},
		{"kpt_shape: [2, 2]", "7 0.5 0.5 1 1 0.5 0.25 0 0", []object{{Box: []float32{0, 0, 1, 1}, Label: 7, Keypoints: [][]float32{{.5, .25, 2}, {0, 0, 0}}}}, "", "[]"},
		{"names: [cat]", "1 0.5 0.25 0.5 0.5", nil, `line 1: "1" is no class`, "[cat]"},
		{"names: [cat]", "0 0.5 0.25 0.5 0.5\n-1 0.5 0.25 0.5 0.5", nil, `line 2: "-1" is no class`, "[cat]"},
		{"names: [cat]", "0 0.5 0.25 0.5", nil, "line 1: it has 4 numbers instead of a class and 4", "[cat]"},
		{"names: [cat]", "0 0.5 0.25 0.5 1.5", nil, `line 1: "1.5" is no part of the image, from 0 to 1`, "[cat]"},
		{"names: [cat]", "0 0.5 NaN 0.5 0.5", nil, `line 1: "NaN" is no part`, "[cat]"},
		{"names: [cat]", "0.5 0.5 0.5 0.5 0.5", nil, `is no class`, "[cat]"},
		{"names: [cat]", strings.Repeat("0 1 1 0 0\n", maxObjects+1), nil, "line 65537: it has more than 65536 objects", "[cat]"},
	} {
		dir := t.TempDir()
		write(t, dir, map[string]string{
			"data.yaml": c.about, "images/train/a.jpg": "", "labels/train/a.txt": c.line, "images/train/empty.jpg": "", "labels/train/empty.txt": "", "images/train/none.jpg": "",
		})
		f, got := find(t, dir+"/images/train", boxes)
		if a := got["a"]; !cmp.Equal(a.Objects, c.want) || !strings.Contains(a.Bad, c.bad) || (a.Bad == "") != (c.bad == "") || fmt.Sprint(f.Classes) != c.classes || !slices.Equal(a.Size, []int{1, 1}) || !a.oriented {
			t.Errorf("%q, %q: %+v", c.about, c.line, a)
		}
		if !f.Only("a.jpg") || !f.Only("empty.jpg") || f.Only("none.jpg") {
			t.Error("which images are samples")
		}
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{"images/a.jpg": "", "labels/a.txt": "1 0.5 0.5 1 1", "labels/classes.txt": "cat\r\ndog\r\n"})
	if f, got := find(t, dir, boxes); fmt.Sprint(f.Classes) != "[cat dog]" || len(got) != 1 {
		t.Errorf("%+v", f)
	}
	for text, want := range map[string]string{
		"names: {0: a, 2: b}": "names has 2 classes, but not 1", "names: [": "yaml", "kpt_shape: [1]": "kpt_shape is [1]", "kpt_shape: [9999999999, 3]": "kpt_shape", "names: [[a]]": "yaml",
	} {
		dir := t.TempDir()
		write(t, dir, map[string]string{"images/a.jpg": "", "labels/a.txt": "", "data.yaml": text})
		if err := findError(t, dir, boxes).Error(); !strings.Contains(err, want) || !strings.Contains(err, "data.yaml: ") {
			t.Error(err)
		}
	}
}

// TestVOCClasses: those of other datasets are sorted by name; what is wrong is of one image.
func TestVOCClasses(t *testing.T) {
	dir := t.TempDir()
	file := func(objects string) string { return "<annotation>" + objects + "</annotation>" }
	one := func(name, x0, x1 string) string {
		return "<object><name>" + name + "</name><bndbox><xmin>" + x0 + "</xmin><ymin>1</ymin><xmax>" + x1 + "</xmax><ymax>4.5</ymax></bndbox></object>"
	}
	write(t, dir, map[string]string{
		"JPEGImages/a.jpg": "", "Annotations/a.xml": file(one("zebra", "1", "2") + one("ant", "1", "2")), "Annotations/b.xml": file("<object><name>ant</name></object>"),
		"Annotations/c.xml": file(one("ant", "9", "2")), "Annotations/d.xml": file(one("ant", "1e99", "2")), "Annotations/e.xml": "<annotation>",
		"Annotations/f.xml": "<!DOCTYPE a [<!ENTITY x \"&x;&x;\">]>" + file(one("&x;", "1", "2")), "Annotations/g.xml": strings.Repeat("<annotation>", 100000),
	})
	f, got := find(t, dir, boxes)
	if fmt.Sprint(f.Classes) != "[ant zebra]" || !cmp.Equal(got["a"].Objects, []object{{Box: []float32{0, 0, 2, 4.5}, Label: 1}, {Box: []float32{0, 0, 2, 4.5}, ID: 1}}) {
		t.Errorf("%q: %+v", f.Classes, got["a"])
	}
	for name, rule := range map[string]string{
		"b": "object[0]: it has no bndbox", "c": "a negative size", "d": "no coordinate", "e": "unexpected EOF", "f": "entity", "g": "unexpected EOF",
	} {
		if bad := got[name].Bad; !strings.Contains(bad, rule) || !strings.Contains(bad, "Annotations/"+name+".xml: ") {
			t.Errorf("%s: %q", name, bad)
		}
	}
}

// TestManifest: the same columns in three kinds of files.
func TestManifest(t *testing.T) {
	type box struct {
		Box   []float32 `parquet:"box,list"`
		Label *int32    `parquet:"label"`
	}
	type row struct {
		Path      string  `parquet:"path"`
		Mask      *string `parquet:"mask"`
		Boxes     []box   `parquet:"boxes,list"`
		Keypoints string  `parquet:"keypoints"`
		Text      string  `parquet:"text"`
		Weight    float64 `parquet:"weight"`
	}
	mask := "m/../a.png"
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"a.csv": "path,mask,boxes,keypoints,text,weight\nx/a.jpg,m/../a.png,\"[[1,2,3,4,1],[0,0,2.5,2]]\",\"[[1,1,2],[]]\",two boxes,0.5\nb.jpg,,,,,\n",
		"a.jsonl": `{"path":"x/a.jpg","mask":"m/../a.png","boxes":[[1,2,3,4,1],{"box":[0,0,2.5,2]}],"keypoints":[[[1,1,2]],[]],"text":"two boxes","weight":0.5}` + "\n" +
			`{"path":"b.jpg","mask":null}` + "\n",
	})
	label := int32(1)
	err := parquet.WriteFile(dir+"/a.parquet", []row{
		{"x/a.jpg", &mask, []box{{[]float32{1, 2, 3, 4}, &label}, {[]float32{0, 0, 2.5, 2}, nil}}, "[[1,1,2],[]]", "two boxes", 0.5}, {Path: "b.jpg"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := said{Mask: "a.png", Objects: []object{
		{Box: []float32{1, 2, 3, 4}, Label: 1, Keypoints: [][]float32{{1, 1, 2}}}, {Box: []float32{0, 0, 2.5, 2}, ID: 1},
	}, Text: `{"text":"two boxes","weight":0.5}`}
	for _, kind := range []string{"csv", "jsonl", "parquet"} {
		f, got := find(t, dir+"/a."+kind, Options{Kinds: kindsOf(target.Masks, target.Boxes, target.Keypoints, target.Text)})
		a := got["x/a.jpg"]
		if kind == "csv" {
			a.Text = strings.ReplaceAll(a.Text, `"0.5"`, "0.5")
		}
		if diff := cmp.Diff(want, a, plainly); diff != "" || f.Masks.Path != dir+"/a."+kind || f.Masks.Column != "mask" || !f.Only("b.jpg") || got["b.jpg"].Bad != "" || got["b.jpg"].Mask != "" {
			t.Errorf("%s: %s\n%+v, %+v", kind, diff, f, got["b.jpg"])
		}
	}
}

// TestArrays: columns that name .npy files are arrays where these are wanted, and else text.
func TestArrays(t *testing.T) {
	dir := t.TempDir()
	type row struct {
		Path   string  `parquet:"path"`
		Number float64 `parquet:"a"`
		Pose   *string `parquet:"pose"`
		Track  string  `parquet:"track"`
	}
	pose := "x/../p.NPY"
	if err := parquet.WriteFile(dir+"/a.parquet", []row{{"1.jpg", 1, nil, "t/1.npy"}, {"2.jpg", 2, &pose, ""}, {"3.jpg", 3, nil, ""}}); err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{
		"a.csv":   "path,a,pose,track\n1.jpg,1,,t/1.npy\n2.jpg,2,x/../p.NPY,\n3.jpg,3,,\n",
		"a.jsonl": `{"path":"1.jpg","a":1,"track":"t/1.npy"}` + "\n" + `{"path":"2.jpg","a":2,"pose":"x/../p.NPY","track":""}` + "\n" + `{"path":"3.jpg","a":3,"pose":null}`,
	})
	for _, kind := range []string{"csv", "jsonl", "parquet"} {
		f, got := find(t, dir+"/a."+kind, Options{Kinds: kindsOf(target.Arrays, target.Text)})
		if f.Arrays == nil || f.Arrays.Path != dir+"/a."+kind || fmt.Sprint(f.Arrays.Columns) != "[track pose]" {
			t.Fatalf("%s: %+v", kind, f.Arrays)
		}
		text := strings.ReplaceAll(strings.Join([]string{got["1.jpg"].Text, got["2.jpg"].Text, got["3.jpg"].Text}, " "), `"`, "")
		if arrays := fmt.Sprintf("%q %q %q", got["1.jpg"].arrays, got["2.jpg"].arrays, got["3.jpg"].arrays); arrays != `["t/1.npy" ""] ["" "p.NPY"] ["" ""]` || text != "{a:1} {a:2} {a:3}" {
			t.Errorf("%s: %s, %s", kind, arrays, text)
		}
		f, got = find(t, dir+"/a."+kind, Options{Kinds: kindsOf(target.Text)})
		if f.Arrays != nil || !strings.Contains(got["1.jpg"].Text, `"track":"t/1.npy"`) || got["1.jpg"].arrays[1] != "" {
			t.Errorf("%s: without arrays, %+v, %+v", kind, f.Arrays, got["1.jpg"])
		}
		if err := findError(t, dir+"/a."+kind, Options{Kinds: kindsOf(target.Boxes)}); !strings.Contains(err.Error(), "it has text, arrays") {
			t.Errorf("%s: %v", kind, err)
		}
		if f, _ := find(t, dir+"/a."+kind, Options{Kinds: kindsOf(target.Arrays), SkipEmpty: true}); !f.Only("1.jpg") || f.Only("3.jpg") {
			t.Errorf("%s: an image without an array is not an empty one", kind)
		}
	}
	write(t, dir, map[string]string{"bad.jsonl": `{"path":"1.jpg","a":"1.npy"}` + "\n" + `{"path":"2.jpg","a":7}`})
	if _, got := find(t, dir+"/bad.jsonl", Options{Kinds: kindsOf(target.Arrays)}); !strings.Contains(got["2.jpg"].Bad, "bad.jsonl: line 2: a is no path of a .npy") {
		t.Errorf("%+v", got)
	}
	write(t, dir, map[string]string{"late.jsonl": `{"path":"1.jpg","a":"text"}` + "\n" + `{"path":"2.jpg","a":"1.npy"}`})
	if err := findError(t, dir+"/late.jsonl", Options{Kinds: kindsOf(target.Arrays)}); !strings.Contains(err.Error(), "it has no arrays") {
		t.Error(err)
	}
}

// TestBadManifest: what is wrong in a row is of its image.
func TestBadManifest(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"metadata.jsonl": strings.Join([]string{
		`{"file_name":"0.jpg","boxes":[[1,2,3]],"keypoints":[[1,2,2]]}`, `{"file_name":"1.jpg","boxes":[[3,2,1,4]]}`, `{"file_name":"2.jpg","boxes":7}`,
		`{"file_name":"3.jpg","boxes":[[1,2,3,4,-1]]}`, `{"file_name":"4.jpg","boxes":"[[1,2"}`, `{"file_name":"5.jpg","mask":{}}`,
		`{"file_name":"6.jpg","boxes":[{"box":[1,2,3,4],"label":"dog"},{"box":[1,2,3,4],"label":"cat","difficult":true,"id":9,"visible":[1,2,2,4]}]}`,
		`{"file_name":"6.jpg"}`, `{"file_name":"7.jpg","keypoints":[[1,2,2]]}`, `{"file_name":"8.jpg","keypoints":[[1,2,5]]}`, `{"file_name":"7.jpg","keypoints":[[1,2,2]]}`, `{"file_name":"9.jpg","boxes":[[1,2,3,1e9]]}`,
	}, "\n")})
	f, got := find(t, dir, Options{Kinds: kindsOf(target.Masks, target.Boxes, target.Keypoints)})
	for name, rule := range map[string]string{
		"0": "", "1": "line 2: boxes[0] is not x0, y0, x1, y1", "2": "something else where a list", "3": "a label is neither", "4": "line 5: boxes: ", "5": "mask is no path",
		"6": "line 8: an earlier row has the same path, and other values", "7": "", "8": "the visibility of a keypoint is 5", "9": "no coordinate",
	} {
		if bad := got[name+".jpg"].Bad; !strings.Contains(bad, rule) || (rule == "") != (bad == "") && name != "0" {
			t.Errorf("%s: %q", name, bad)
		}
	}
	want := []object{{Box: []float32{1, 2, 3, 4}, Label: 1}, {Box: []float32{1, 2, 3, 4}, Visible: []float32{1, 2, 2, 4}, ID: 9, Flags: 4}}
	if six := got["6.jpg"].Objects; !cmp.Equal(six, want) || fmt.Sprint(f.Classes) != "[cat dog]" {
		t.Errorf("%+v, %q", six, f.Classes)
	}
	if seven := got["7.jpg"].Objects; len(seven) != 1 || seven[0].Box[2] != maxCoordinate {
		t.Errorf("keypoints alone are %+v", seven)
	}
}

// TestLabelMap: a value and its class in each line.
func TestLabelMap(t *testing.T) {
	for text, want := range map[string]string{
		"7 0\n# road\n2,1\r\n3: -1\n": "[-1 -1 1 -1 -1 -1 -1 0]", "0 5": "[5]", "": "empty", "1": "line 1 must be", "1 2 3": "line 1 must be", "x 1": "line 1 must be",
		"-1 0": "line 1 must be", "65536 0": "line 1 must be", "1 0\n1 0": "line 2: the value 1 is there twice", "1 -2": "line 1 must be", "1 99999999999": "line 1 must be",
	} {
		values, err := parseLabelMap(text)
		if got := fmt.Sprint(values, err); !strings.Contains(got, want) || strings.HasPrefix(want, "[") != (err == nil) {
			t.Errorf("%q: %s", text, got)
		}
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{"images/a.jpg": "", "masks/a.png": "", "map.txt": "1 0"})
	o := masks
	o.LabelMap = dir + "/map.txt"
	if f, _ := find(t, dir, o); fmt.Sprint(f.Values) != "[-1 0]" {
		t.Errorf("%+v", f)
	}
	if o.LabelMap = "trainids"; !strings.Contains(findError(t, dir, o).Error(), "the labelIds of Cityscapes") {
		t.Error("trainids of others than Cityscapes")
	}
	if o.LabelMap = dir + "/absent"; !errors.Is(findError(t, dir, o), os.ErrNotExist) {
		t.Error("a map that is not there")
	}
	o.LabelMap = dir + "/images"
	if got, want := findError(t, dir, o).Error(), dir+"/images: not a regular file"; got != want {
		t.Errorf("a directory: %s, want %s", got, want)
	}
}

// TestFIFOOfAnnotations: it is no file, and is not waited for.
func TestFIFOOfAnnotations(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"images/a.jpg": ""})
	o := boxes
	o.Files = []string{dir + "/coco.json"}
	if err := unix.Mkfifo(o.Files[0], 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := findError(t, dir+"/images", o).Error(), o.Files[0]+": not a regular file"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

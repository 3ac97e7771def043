package annotation

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/target"
	"github.com/batchfs/batchfs/internal/testkit"
)

var masks, boxes = Options{Kinds: kindsOf(target.Masks)}, Options{Kinds: kindsOf(target.Boxes)}

// TestFolderOfMasks: masks are found in the usual places, under the usual names, and where the
// options say.
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
		if m := got[f.nameOf(c.image)].Mask; m != c.mask || f.Masks.Path != filepath.Join(dir, c.masks) || !f.only(c.image) || f.only("b.jpg") && !strings.Contains(f.Sources[0], "_mask") || !f.Masks.only(c.mask) {
			t.Errorf("%+v: the mask is %q, in %+v; %+v", c, m, f.Masks, f)
		}
	}
}

// TestRoots: if there are several folders of images, none is used, and the error names them.
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
	testkit.Must(t, os.Symlink(dir+"/one/images/val", dir+"/link"))
	if f, _ := find(t, dir+"/link", boxes); f.Images != dir+"/link" || !f.only("1.jpg") {
		t.Errorf("%+v", f)
	}
	write(t, dir, map[string]string{"plain/images/1.jpg": "", "plain/metadata.csv": "file_name,boxes\nimages/1.jpg,\"[[0,0,1,1]]\"\n"})
	if f, _ := find(t, dir+"/plain", boxes); f.Images != dir+"/plain" || !f.only("images/1.jpg") {
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
}

// TestADE: 0 is no class, and the others are numbered from 0, also where the folder of masks is
// named, as for images that were converted.
func TestADE(t *testing.T) {
	dir := t.TempDir()
	table := "Idx\tRatio\tTrain\tVal\tName\n"
	for k := 1; k <= 150; k++ {
		table += fmt.Sprintf("%d\t0.1\t1\t1\tclass %d\n", k, k)
	}
	write(t, dir, map[string]string{
		"objectInfo150.txt": table, "images/training/ADE_train_00000001.jpg": "", "annotations/training/ADE_train_00000001.png": "",
		"packed/ADE_train_00000001.jpg.bfs": "",
	})
	named := masks
	named.Files = []string{filepath.Join(dir, "annotations/training")}
	for place, o := range map[string]Options{"": masks, "packed": named} {
		f, got := find(t, filepath.Join(dir, place), o)
		if m := got["ADE_train_00000001"].Mask; m != "ADE_train_00000001.png" || o.Files == nil && f.Layout != "ADE20K" ||
			f.MaskClasses[0] != "class 1" || len(f.Values) != 151 || f.Values[0] != -1 || f.Values[150] != 149 {
			t.Errorf("%q, %+v", m, f)
		}
	}
}

// TestVOCMasksThatAreNamed: the folder says what their classes are.
func TestVOCMasksThatAreNamed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"VOC2012/SegmentationClass/a.png": "", "packed/a.jpg.bfs": ""})
	o := masks
	o.Files = []string{filepath.Join(dir, "VOC2012/SegmentationClass")}
	if f, got := find(t, filepath.Join(dir, "packed"), o); len(f.MaskClasses) != 21 || got["a"].Mask != "a.png" {
		t.Errorf("%v, %+v", got, f)
	}
}

// String is what is said, in words.
func (s said) String() (words string) {
	if s.Size != nil {
		words += fmt.Sprintf(" %dx%d", s.Size[0], s.Size[1])
	}
	if s.oriented {
		words += " upright"
	}
	for _, o := range s.Objects {
		words += fmt.Sprintf(" %d:%d%v", o.ID, o.Label, o.Box)
		if o.Flags != 0 || o.Visible != nil || o.Keypoints != nil {
			words += fmt.Sprint("/", o.Flags, o.Visible, o.Keypoints)
		}
	}
	for _, more := range append(s.arrays[:], s.Mask, s.Text, s.Bad) {
		if more != "" {
			words += " " + more
		}
	}
	return words
}

// TestLayouts compares everything that is found for each image: the id, label and box of each
// object, its flags, its visible part, and its keypoints; or the error.
func TestLayouts(t *testing.T) {
	type files = map[string]string
	yolo := func(about, line string) files {
		return files{"data.yaml": about, "images/a.jpg": "", "labels/a.txt": line, "labels/empty.txt": "", "images/none.jpg": ""}
	}
	object := func(name, x0, x1 string) string {
		return "<annotation><object><name>" + name + "</name><bndbox><xmin>" + x0 + "</xmin><ymin>1</ymin><xmax>" + x1 + "</xmax><ymax>4.5</ymax></bndbox></object></annotation>"
	}
	box := func(id, image int) string {
		return fmt.Sprintf(`{"id": %d, "image_id": %d, "category_id": 5, "bbox": [1,2,3,4]}`, id, image)
	}
	for _, c := range []struct {
		name  string
		files files
		at    string
		kinds Kinds
		want  string
	}{
		{"YOLO", yolo("names: [cat, dog]", "1 0.5 0.25 0.5 0.5\n\n0 1 1 0.5 0.25\r\n"), "", boxes.Kinds, "YOLO [cat dog]; a 1x1 upright 0:1[0.25 0 0.75 0.5] 1:0[0.75 0.875 1.25 1.125]; empty 1x1 upright"},
		{"YOLO, a polygon", yolo("names:\n  0: cat\n  1: dog", "1 0.5 0.5 0.75 0.25 0.25 0.75"), "", boxes.Kinds, "YOLO [cat dog]; a 1x1 upright 0:1[0.25 0.25 0.75 0.75]; empty 1x1 upright"},
		{"YOLO, keypoints of three numbers", yolo("kpt_shape: [2, 3]\nnames: {0: cat}", "0 0.5 0.5 1 1 0.5 0.25 2 0 0 0"), "images", kindsOf(target.Keypoints), "YOLO [cat]; a 1x1 upright 0:0[0 0 1 1]/0 [] [[0.5 0.25 2] [0 0 0]]; empty 1x1 upright"},
		{"YOLO, keypoints of two", yolo("kpt_shape: [2, 2]", "7 0.5 0.5 1 1 0.5 0.25 0 0"), "", boxes.Kinds, "YOLO []; a 1x1 upright 0:7[0 0 1 1]/0 [] [[0.5 0.25 2] [0 0 0]]; empty 1x1 upright"},
		{"YOLO, no such class", yolo("names: [cat]", "1 0.5 0.25 0.5 0.5"), "", boxes.Kinds, `YOLO [cat]; a 1x1 upright labels/a.txt: line 1: "1" is no class; empty 1x1 upright`},
		{"YOLO, a negative class", yolo("names: [cat]", "0 0.5 0.25 0.5 0.5\n-1 0.5 0.25 0.5 0.5"), "", boxes.Kinds, `YOLO [cat]; a 1x1 upright labels/a.txt: line 2: "-1" is no class; empty 1x1 upright`},
		{"YOLO, half a class", yolo("", "0.5 0.5 0.5 0.5 0.5"), "", boxes.Kinds, `YOLO []; a 1x1 upright labels/a.txt: line 1: "0.5" is no class; empty 1x1 upright`},
		{"YOLO, a number is missing", yolo("", "0 0.5 0.25 0.5"), "", boxes.Kinds, "YOLO []; a 1x1 upright labels/a.txt: line 1: it has 4 numbers instead of a class and 4; empty 1x1 upright"},
		{"YOLO, outside", yolo("", "0 0.5 0.25 0.5 1.5"), "", boxes.Kinds, `YOLO []; a 1x1 upright labels/a.txt: line 1: "1.5" is no part of the image, from 0 to 1; empty 1x1 upright`},
		{"YOLO, no number", yolo("", "0 0.5 NaN 0.5 0.5"), "", boxes.Kinds, `YOLO []; a 1x1 upright labels/a.txt: line 1: "NaN" is no part of the image, from 0 to 1; empty 1x1 upright`},
		{"YOLO, too many", yolo("", strings.Repeat("0 1 1 0 0\n", maxObjects+1)), "", boxes.Kinds, "YOLO []; a 1x1 upright labels/a.txt: line 65537: it has more than 65536 objects; empty 1x1 upright"},
		{"YOLO, a list of classes", files{"images/a.jpg": "", "labels/a.txt": "1 0.5 0.5 1 1", "labels/classes.txt": "cat\r\ndog\r\n"}, "", boxes.Kinds, "YOLO [cat dog]; a 1x1 upright 0:1[0 0 1 1]"},
		{"YOLO, classes are missing", yolo("names: {0: a, 2: b}", ""), "", boxes.Kinds, "data.yaml: names has 2 classes, but not 1"},
		{"YOLO, no YAML", yolo("names: [", ""), "", boxes.Kinds, "data.yaml: yaml: line 1: did not find expected node content"},
		{"YOLO, another kpt_shape", yolo("kpt_shape: [1]", ""), "", boxes.Kinds, "data.yaml: kpt_shape is [1], and not a number of keypoints and 2 or 3"},
		{"YOLO, too large a kpt_shape", yolo("kpt_shape: [9999999999, 3]", ""), "", boxes.Kinds, "data.yaml: kpt_shape is [9999999999 3], and not a number of keypoints and 2 or 3"},
		{"YOLO, a list as a name", yolo("names: [[a]]", ""), "", boxes.Kinds, "data.yaml: yaml: unmarshal errors:\n  line 1: cannot unmarshal !!seq into string"},
		{"YOLO without what is wanted", yolo("", ""), "", kindsOf(target.Masks, target.Text), ": it has no masks, text; as YOLO, it has boxes"},
		{"VOC, other classes, and what is bad", files{
			"JPEGImages/a.jpg": "", "Annotations/a.xml": object("zebra", "1", "2"), "Annotations/b.xml": "<annotation><object><name>ant</name></object></annotation>",
			"Annotations/c.xml": object("bee", "9", "2"), "Annotations/d.xml": object("ant", "1e99", "2"), "Annotations/e.xml": "<annotation>",
			"Annotations/f.xml": "<!DOCTYPE a [<!ENTITY x \"&x;&x;\">]>" + object("&x;", "1", "2"), "Annotations/g.xml": strings.Repeat("<annotation>", 100000),
			"Annotations/h.xml": object("ant", " 2", "5 "), "Annotations/i.xml": "<annotation><size><width>-1</width></size></annotation>",
		}, "", boxes.Kinds, "Pascal VOC [ant bee zebra]; a 0:2[0 0 2 4.5]; b Annotations/b.xml: object[0]: it has no bndbox; c Annotations/c.xml: object[0]: bndbox has a negative size; d Annotations/d.xml: object[0]: bndbox has something that is no coordinate; e Annotations/e.xml: XML syntax error on line 1: unexpected EOF; f Annotations/f.xml: XML syntax error on line 1: invalid character entity &x;; g Annotations/g.xml: XML syntax error on line 1: unexpected EOF; h 0:0[1 0 5 4.5]; i Annotations/i.xml: the size is 0 x -1"},
		{"COCO, panoptic", files{
			"train2017/a.jpg": "", "annotations/panoptic_train2017/a.png": "",
			"annotations/panoptic_train2017.json": cocoFile(`{"image_id": 1, "file_name": "a.png", "segments_info": [
				{"id": 70, "category_id": 5, "bbox": [1,2,3,1], "iscrowd": 1, "area": 2}, {"id": 66051, "category_id": 3, "bbox": [0,0,1,1], "iscrowd": 0}]}`),
		}, "", kindsOf(target.Masks, target.Boxes), "COCO [three five] {Path:annotations/panoptic_train2017 Ending: Column: Field: Panoptic:true} []; a.jpg 4x6 70:1[1 2 4 3]/1 [] [] 66051:0[0 0 1 1] a.png; b.jpg"},
		{"COCO, one id of two images", files{"train/a.jpg": "", "annotations/instances_train.json": strings.Replace(cocoFile(box(1, 1)), `"id": 2`, `"id": 1`, 1)}, "train", boxes.Kinds, "COCO [three five]; a.jpg 4x6 1:1[1 2 4 6] annotations/instances_train.json: two of images have the id 1; b.jpg annotations/instances_train.json: images[1]: its id 1 is that of another image"},
		{"a manifest", files{"metadata.jsonl": strings.Join([]string{
			`{"file_name":"0.jpg","boxes":[[1,2,3]],"keypoints":[[1,2,2]]}`, `{"file_name":"1.jpg","boxes":[[3,2,1,4,"cow"]]}`, `{"file_name":"2.jpg","boxes":7}`,
			`{"file_name":"3.jpg","boxes":[[1,2,3,4,-1]]}`, `{"file_name":"4.jpg","boxes":"[[1,2"}`, `{"file_name":"5.jpg","mask":{}}`,
			`{"file_name":"6.jpg","boxes":[{"box":[1,2,3,4],"label":"dog"},{"box":[1,2,3,4],"label":"cat","difficult":true,"id":9,"visible":[1,2,2,4]}]}`,
			`{"file_name":"6.jpg"}`, `{"file_name":"7.jpg","keypoints":[[1,2,2]]}`, `{"file_name":"8.jpg","keypoints":[[1,2,5]]}`, `{"file_name":"7.jpg","keypoints":[[1,2,2]]}`,
			`{"file_name":"9.jpg","boxes":[[1,2,3,1e9]]}`,
		}, "\n")}, "", kindsOf(target.Masks, target.Boxes, target.Keypoints), "a manifest [cat cow dog] {Path: Ending: Column:mask Field: Panoptic:false} []; 0.jpg metadata.jsonl: line 1: boxes[0] is not x0, y0, x1, y1; 1.jpg metadata.jsonl: line 2: boxes[0] is not x0, y0, x1, y1; 2.jpg metadata.jsonl: line 3: there is something else where a list should be; 3.jpg metadata.jsonl: line 4: a label is neither a whole number nor a name; 4.jpg metadata.jsonl: line 5: boxes: it ends too early; 5.jpg metadata.jsonl: line 6: mask is no path; 6.jpg 0:2[1 2 3 4] 9:0[1 2 3 4]/4 [1 2 2 4] [] metadata.jsonl: line 8: an earlier row has the same path, and other values; 7.jpg 0:0[0 0 1.6777216e+07 1.6777216e+07]/0 [] [[1 2 2]] metadata.jsonl: the label of boxes[0] is no name, but others are, such as \"cat\"; 8.jpg metadata.jsonl: line 10: the visibility of a keypoint is 5, and not 0, 1 or 2; 9.jpg metadata.jsonl: line 12: a box has something that is no coordinate"},
		{"a manifest, lists in any order", files{"metadata.jsonl": strings.Join([]string{
			`{"file_name":"0.jpg","boxes":{"label":[1,null],"category":[2,3],"box":[[1,2,3,4],null],"bbox":[[5,5,5,5],[6,6,1,1]]}}`,
			`{"file_name":"1.jpg","boxes":{"bbox":[[5,5,5,5]],"category":[2],"label":[1],"box":[[1,2,3,4]]}}`,
		}, "\n")}, "", boxes.Kinds, "a manifest []; 0.jpg 0:1[1 2 3 4] 1:3[6 6 7 7]; 1.jpg 0:1[1 2 3 4]"},
		{"a manifest, names among numbers", files{"metadata.jsonl": strings.Join([]string{
			`{"file_name":"0.jpg","boxes":{"category_id":[7],"box":[[1,2,3,4]],"category":["x"]}}`,
			`{"file_name":"1.jpg","boxes":[[1,2,3,4,"x"],[1,2,3,4,0]]}`, `{"file_name":"2.jpg","boxes":[[1,2,3,4]]}`,
		}, "\n")}, "", boxes.Kinds, "a manifest [x]; 0.jpg 0:0[1 2 3 4]; 1.jpg 0:0[1 2 3 4] 1:0[1 2 3 4] metadata.jsonl: the label of boxes[1] is no name, but others are, such as \"x\"; " +
			"2.jpg 0:0[1 2 3 4] metadata.jsonl: the label of boxes[0] is no name, but others are, such as \"x\""},
		{"a manifest, too many boxes", files{"metadata.jsonl": `{"file_name":"0.jpg","boxes":[` + strings.Repeat("[],", maxBoxes) + "[]]}"}, "", boxes.Kinds, "a manifest []; 0.jpg metadata.jsonl: line 1: there are more than 262144 values in a list"},
		{"a manifest without boxes", files{"metadata.jsonl": `{"path":"1.jpg","a":1,"b":"1.npy"}`}, "", boxes.Kinds, ": it has no boxes; as a manifest, it has text, arrays"},
		{"arrays that are none", files{"metadata.jsonl": `{"path":"1.jpg","a":"1.npy"}` + "\n" + `{"path":"2.jpg","a":7}`}, "", kindsOf(target.Arrays), "a manifest []; 1.jpg 1.npy; 2.jpg metadata.jsonl: line 2: a is no path of a .npy"},
		{"arrays after something else", files{"metadata.jsonl": `{"path":"1.jpg","a":"text"}` + "\n" + `{"path":"2.jpg","a":"1.npy"}`}, "", kindsOf(target.Arrays), ": it has no arrays; as a manifest, it has text"},
	} {
		dir := t.TempDir()
		write(t, dir, c.files)
		got := ""
		if f, said, err := tryFind(t, filepath.Join(dir, c.at), Options{Kinds: c.kinds}); err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(f.Layout, " ", f.Classes)
			if f.Masks != nil {
				got += fmt.Sprintf(" %+v %v", *f.Masks, f.MaskClasses)
			}
			for _, name := range slices.Sorted(maps.Keys(said)) {
				got += "; " + name + said[name].String()
			}
		}
		if got = strings.NewReplacer(dir+"/", "", dir, "").Replace(got); got != c.want {
			t.Errorf("%s: %s, and not %s", c.name, got, c.want)
		}
	}
}

// TestManifest: the same columns give the same result in three kinds of files. Columns that name
// .npy files are arrays if these are wanted, and otherwise text.
func TestManifest(t *testing.T) {
	type box struct {
		Box   []float32 `parquet:"box,list"`
		Label *int32    `parquet:"label"`
	}
	type row struct {
		Path      string   `parquet:"path"`
		Mask      *string  `parquet:"mask"`
		Boxes     []box    `parquet:"boxes,list"`
		Keypoints string   `parquet:"keypoints"`
		Text      *string  `parquet:"text"`
		Weight    *float64 `parquet:"weight"`
		Pose      *string  `parquet:"pose"`
		Track     string   `parquet:"track"`
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"a.csv": "path,mask,boxes,keypoints,text,weight,pose,track\nx/a.jpg,m/../a.png,\"[[1,2,3,4,1],[0,0,2.5,2]]\",\"[[1,1,2],[]]\",two boxes,0.5,,t/1.npy\n" +
			"b.jpg,,,,,,x/../p.NPY,\nc.jpg,,,,,,,\n",
		"a.jsonl": `{"path":"x/a.jpg","mask":"m/../a.png","boxes":[[1,2,3,4,1],{"box":[0,0,2.5,2]}],"keypoints":[[[1,1,2]],[]],"text":"two boxes","weight":0.5,"track":"t/1.npy"}` + "\n" +
			`{"path":"b.jpg","mask":null,"pose":"x/../p.NPY","track":""}` + "\n" + `{"path":"c.jpg","pose":null}`,
	})
	mask, label, text, weight, pose := "m/../a.png", int32(1), "two boxes", 0.5, "x/../p.NPY"
	err := parquet.WriteFile(dir+"/a.parquet", []row{
		{"x/a.jpg", &mask, []box{{[]float32{1, 2, 3, 4}, &label}, {[]float32{0, 0, 2.5, 2}, nil}}, "[[1,1,2],[]]", &text, &weight, nil, "t/1.npy"},
		{Path: "b.jpg", Pose: &pose}, {Path: "c.jpg"},
	})
	testkit.Must(t, err)
	for _, c := range []struct {
		kinds  Kinds
		arrays string
		want   map[string]string
	}{
		{Kinds{true, true, true, true, true}, "[track pose]", map[string]string{
			"x/a.jpg": ` 0:1[1 2 3 4]/0 [] [[1 1 2]] 1:0[0 0 2.5 2] t/1.npy a.png {"text":"two boxes","weight":0.5}`, "b.jpg": " p.NPY", "c.jpg": "",
		}},
		{kindsOf(target.Text), "", map[string]string{
			"x/a.jpg": ` {"text":"two boxes","track":"t/1.npy","weight":0.5}`, "b.jpg": ` {"pose":"x/../p.NPY"}`, "c.jpg": "",
		}},
	} {
		for _, kind := range []string{"csv", "jsonl", "parquet"} {
			f, said := find(t, dir+"/a."+kind, Options{Kinds: c.kinds, SkipEmpty: true})
			got := map[string]string{}
			for name, image := range said {
				words := strings.ReplaceAll(image.String(), `"0.5"`, "0.5")
				got[name] = strings.NewReplacer(`,"track":""`, "", ` {"track":""}`, "").Replace(words) // Parquet has all columns
			}
			if diff := cmp.Diff(c.want, got); diff != "" || !f.only("x/a.jpg") || !f.only("b.jpg") || f.only("c.jpg") && kind != "parquet" {
				t.Errorf("%s: %s", kind, diff)
			}
			if m := f.Masks; c.kinds[target.Masks] != (m != nil) || m != nil && (m.Path != dir+"/a."+kind || m.Column != "mask") {
				t.Errorf("%s: %+v", kind, m)
			}
			if a := f.Arrays; (c.arrays != "") != (a != nil) || a != nil && (a.Path != dir+"/a."+kind || fmt.Sprint(a.Columns) != c.arrays) {
				t.Errorf("%s: %+v", kind, a)
			}
		}
	}
}

// TestLabelMap: a value and its class in each line.
func TestLabelMap(t *testing.T) {
	for text, want := range map[string]string{
		"7 0\n\n 2\t1\r\n3 -1\n": "[-1 -1 1 -1 -1 -1 -1 0]", "0 5": "[5]", "": "empty", "1": "line 1 must be", "1 2 3": "line 1 must be", "x 1": "line 1 must be",
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
	if o.LabelMap = "trainids"; !strings.Contains(findError(t, dir, o).Error(), "masks whose names end in labelIds.png") {
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

// TestFIFOOfAnnotations: a FIFO does not count as a file, and opening it does not block.
func TestFIFOOfAnnotations(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"images/a.jpg": ""})
	o := boxes
	o.Files = []string{dir + "/coco.json"}
	testkit.Must(t, unix.Mkfifo(o.Files[0], 0o600))
	if got, want := findError(t, dir+"/images", o).Error(), o.Files[0]+": not a regular file"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

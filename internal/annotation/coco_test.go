package annotation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/target"
)

// cocoFile is a file of two images and two categories, with annotations.
func cocoFile(annotations ...string) string {
	return `{"images": [{"id": 1, "file_name": "a.jpg", "height": 4, "width": 6}, {"id": 2, "file_name": "b.jpg"}],
		"annotations": [` + strings.Join(annotations, ",") + `],
		"categories": [{"id": 5, "name": "five", "keypoints": ["x", "y"]}, {"id": 3, "name": "three"}]}`
}

// readCOCO reads one file of COCO.
func readCOCO(t *testing.T, text string, o Options) (*Found, map[string]said, error) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.json": text})
	o.Files = []string{dir + "/a.json"}
	return tryFind(t, dir, o)
}

// TestBadCOCO: an annotation that breaks a rule makes its image bad, with its place; nothing else
// does.
func TestBadCOCO(t *testing.T) {
	o := Options{Kinds: kindsOf(target.Masks, target.Boxes, target.Keypoints)}
	const other = `{"id": 1000, "image_id": 2, "category_id": 5, "bbox": [1,2,3,4], "keypoints": [1,2,2,0,0,0], "segmentation": [[1,2,3,4,5,6]]}`
	const head = `{"id": 7, "image_id": 1, "category_id": 3, `
	many, polygons, segments := strings.Repeat("1,2,", maxPoints), strings.Repeat("[],", maxPoints), strings.Repeat("{},", maxObjects)
	for annotation, rule := range map[string]string{
		head + `"bbox": [1,2,3,4]}`:                                                "",
		head + `"bbox": [1,2,0,0]}`:                                                "",
		head + `"bbox": [1,2,-1,4]}`:                                               "bbox has a negative size",
		head + `"bbox": [1,2,3]}`:                                                  "bbox has 3 numbers",
		head + `"bbox": null}`:                                                     "bbox is no list",
		head + `"bbox": [1,2,3,1e30]}`:                                             "no coordinate",
		head + `"bbox": [1,2,3,1e999]}`:                                            "no coordinate",
		head + `"bbox": [1,2,3,"4"]}`:                                              "no coordinate",
		head + `"iscrowd": 2, "bbox": []}`:                                         "iscrowd is neither 0 nor 1",
		head + `"iscrowd": true, "bbox": 1}`:                                       "bbox is no list",
		`{"id": "x", "image_id": 1, "category_id": 3, "bbox": [1,2,3,4]}`:          "its id is no whole number",
		`{"id": 1, "image_id": 1, "category_id": 4, "bbox": [1,2,3,4]}`:            "there is no category 4",
		`{"id": 1, "image_id": 1, "bbox": [1,2,3,4]}`:                              "its category_id is no whole number",
		`{"id": 1.0, "image_id": 1.0, "category_id": 3.0, "bbox": [1,2,3,4]}`:      "",
		head + `"segmentation": [[1,2,3,4]]}`:                                      "a polygon has 4 numbers",
		head + `"segmentation": [[1,2,3,4,5,6,7]]}`:                                "a polygon has 7 numbers",
		head + `"segmentation": [[1,2,3,4,5,{}]]}`:                                 "no coordinate",
		head + `"segmentation": "x"}`:                                              "something else where a list",
		head + `"segmentation": [[` + many + `1,2]]}`:                              "more than 2097152 numbers",
		head + `"segmentation": [` + polygons + `[]]}`:                             "more than 1048576 values",
		`{"image_id": 1, "file_name": "a", "segments_info": [` + segments + `{}]}`: "more than 65536 values",
		head + `"segmentation": {"size": [4,6], "counts": [20,4]}}`:                "",
		head + `"segmentation": {"size": [4,6], "counts": [20,5]}}`:                "its runs are 25 pixels, and not 4 x 6",
		head + `"segmentation": {"size": [6,4], "counts": [20,4]}}`:                "and the image of 4 x 6",
		head + `"segmentation": {"size": [4,6], "counts": [-4,28]}}`:               "its counts are no runs",
		head + `"segmentation": {"size": [4,6], "counts": "\u0001"}}`:              "its counts are no runs",
		head + `"segmentation": {"size": [4,6], "counts": "oooooooooooo"}}`:        "its counts are no runs",
		head + `"segmentation": {"size": [4,6], "counts": 4}}`:                     "something else where a list",
		head + `"segmentation": {"counts": [24]}}`:                                 "its runs have no size",
		`{"id": 7, "image_id": 1, "category_id": 5, "keypoints": [1,2,2,0,0,0]}`:   "",
		`{"id": 7, "image_id": 1, "category_id": 5, "keypoints": [1,2,2]}`:         "it has 3 numbers for 2 keypoints",
		`{"id": 7, "image_id": 1, "category_id": 5, "keypoints": [1,2,2,1,2,3]}`:   "the visibility of a keypoint is 3",
		head + `"keypoints": [1,2]}`:                                               "it has 2 numbers for 0 keypoints",
	} {
		short := annotation[:min(len(annotation), 100)]
		_, got, err := readCOCO(t, cocoFile(other, annotation), o)
		if err != nil {
			t.Errorf("%s: %v", short, err)
			continue
		}
		if bad := got["a.jpg"].Bad; !strings.Contains(bad, rule) || (bad == "") != (rule == "") || bad != "" && !strings.Contains(bad, "/a.json: annotations[1]: ") {
			t.Errorf("%s: %q", short, bad)
		}
		if b := got["b.jpg"]; b.Bad != "" || len(b.Objects) != 1 || b.Objects[0].ID != 1000 || len(b.shapes) != 1 {
			t.Errorf("%s: the other image is %+v", short, b)
		}
	}
}

// TestUnreadableCOCO: a file that is wrong as a whole is refused.
func TestUnreadableCOCO(t *testing.T) {
	good := cocoFile(`{"id": 1, "image_id": 1, "category_id": 5, "bbox": [1,2,3,4]}`)
	for text, want := range map[string]string{
		good[:len(good)-1]: "it ends too early", good[:len(good)/2]: "it ends too early", "": "it ends too early", "[]": "byte 0: there should be an object",
		"{}": "no list of images", `{"images": []}`: "no list of images", `{"images": 7}`: "no list of images", `{"images" 7}`: "byte 10: there should be a colon",
		strings.Replace(good, `"a.jpg"`, `7`, 1): "images[0]: it has no file_name", strings.Replace(good, `"id": 5`, `"id": 3`, 1): "two categories have the id 3",
		strings.Replace(good, `"id": 5`, `"id": "5"`, 1): "categories[0]: its id is no whole number", strings.Replace(good, `"image_id": 1`, `"image_id": "1"`, 1): "annotations[0]: its image_id is no whole number",
		strings.Replace(good, "[1,2,3,4]", "[1,2,3,]", 1): "annotations[0]: unexpected", strings.Replace(good, "[1,2,3,4]", "[1,2,3,NaN]", 1): "annotations[0]: unexpected",
		strings.Replace(good, "[1,2,3,4]", strings.Repeat("[", 20000)+strings.Repeat("]", 20000), 1): "depth", cocoFile("7"): "annotations[0]: its image_id",
		strings.Replace(good, "[1,2,3,4]", `["`+strings.Repeat("x", maxEntry+10<<20)+`"]`, 1): "one entry is longer than 64 MiB",
	} {
		if _, _, err := readCOCO(t, text, boxes); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "a.json") {
			t.Errorf("%.300s: %v", text, err)
		}
	}
	for text, rule := range map[string]string{
		strings.Replace(good, `"id": 2`, `"id": "2"`, 1):             "images[1]: its id is no whole number",
		strings.Replace(good, `"b.jpg"`, `"b.jpg", "height": -1`, 1): "images[1]: a height or width",
		strings.Replace(good, `b.jpg`, `x/../b.jpg`, 1):              "",
	} {
		_, got, err := readCOCO(t, text, boxes)
		a, b := got["a.jpg"].Bad, got["b.jpg"].Bad
		if err != nil || !strings.Contains(b, rule) || (b == "") != (rule == "") || a != "" {
			t.Errorf("%s: %v, %+v", text, err, got)
		}
	}
	if f, _, err := readCOCO(t, strings.Replace(good, `"image_id": 1`, `"image_id": 9`, 1), Options{}); err != nil || f.Strays != 1 {
		t.Errorf("%v, %+v", err, f)
	}
}

// TestInterruptedCOCO: reading ends with its context.
func TestInterruptedCOCO(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.json": cocoFile()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := search(ctx, dir, Options{Kinds: boxes.Kinds, Files: []string{dir + "/a.json"}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestStream: the text of each value is the same however the file is read.
func TestStream(t *testing.T) {
	text := []byte(` { "a" : [ 1 , "x\"]}\\" , [ ] , {"b":[{}, -1.5e3]},true,null ] , "skipped": {"a": ["\\\\", "]"]}, "b":[], "c" : [2]}` + "\n")
	want := []string{`a 0 1`, `a 1 "x\"]}\\"`, `a 2 [ ]`, `a 3 {"b":[{}, -1.5e3]}`, `a 4 true`, `a 5 null`, `c 0 2`}
	for room := 1; room < 40; room++ {
		var got []string
		s := stream{Reader: bytes.NewReader(text), places: &places{ctx: t.Context()}, buf: make([]byte, room)}
		lists := map[string]func(k int, text []byte) error{}
		for _, list := range []string{"a", "b", "c"} {
			lists[list] = func(k int, text []byte) error {
				got = append(got, fmt.Sprint(list, " ", k, " ", string(text)))
				return nil
			}
		}
		if err := s.lists(lists); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d bytes at a time: %v, %q", room, err, got)
		}
	}
}

// FuzzCOCO: any file gives an error, or says what is bad.
func FuzzCOCO(f *testing.F) {
	f.Add(cocoFile(`{"id": 1, "image_id": 1, "category_id": 5, "bbox": [1,2,3,4], "segmentation": [[1,2,3,4,5,6]], "keypoints": [1,2,2,0,0,0]}`))
	f.Add(cocoFile(`{"id": 1, "image_id": 1, "category_id": 5, "iscrowd": 1, "segmentation": {"size": [4, 6], "counts": "04d0"}}`, `{"image_id": 1, "caption": "x"}`))
	f.Add(cocoFile(`{"image_id": 1, "file_name": "a.png", "segments_info": [{"id": 70, "category_id": 5, "bbox": [1,2,3,1]}]}`))
	f.Fuzz(func(t *testing.T, text string) {
		_, _, _ = readCOCO(t, text, Options{Kinds: everything})
	})
}

// FuzzFiles: any file about one image gives its content, or the rule it breaks.
func FuzzFiles(f *testing.F) {
	f.Add("0 0.5 0.5 1 1\n")
	f.Add("<annotation><size><width>1</width></size><object><name>a</name><bndbox><xmin>1</xmin></bndbox></object></annotation>")
	f.Add(`{"imgHeight": 1, "imgWidth": 2, "objects": [{"instanceId": 24000, "bbox": [1,2,3,4], "bboxVis": [1,2,3,4], "label": "rider"}]}`)
	f.Add("names: {0: a, 1: b}\nkpt_shape: [3, 2]")
	f.Add("3 4\n")
	f.Fuzz(func(t *testing.T, text string) {
		check := func(objects []target.Object) {
			for _, o := range objects {
				for _, v := range o.Box {
					if !isCoordinate(float64(v) / 2) {
						t.Errorf("%q: %v", text, o)
					}
				}
			}
		}
		y := &yolo{}
		if y.parseYAML([]byte(text)) != nil {
			y = &yolo{keypoints: 1, values: 3}
		}
		check(y.parse([]byte(text)).objects)
		check(parseVOC([]byte(text)).objects)
		check(parsePersons([]byte(text)).objects)
		_, _ = parseLabelMap(text)
		_ = adeNames(text)
	})
}

package archive

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/batchfs/batchfs/internal/testkit"
)

// parquetOf writes a Parquet file with another library than most archives in testdata.
func parquetOf[T any](t *testing.T, rows []T, options ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	testkit.Must(t, parquet.Write(&b, rows, options...))
	return b.Bytes()
}

type twoImages struct {
	Left  []byte `parquet:"left"`
	Right []byte `parquet:"right"`
	Kind  string `parquet:"kind"`
	Count int64  `parquet:"count"`
}

// TestColumns: which columns are used, by a choice or without one.
func TestColumns(t *testing.T) {
	b := parquetOf(t, []twoImages{{[]byte("l0"), []byte("r0"), "7", 3}, {[]byte("l1"), []byte("r1"), "", -1}}, parquet.DataPageVersion(1))
	for _, c := range []struct {
		o    Options
		want string // of the error, or the samples
	}{
		{Options{}, "no column holds the bytes of images"},
		{Options{Image: "right"}, "r0 -1 ,r1 -1 ,"},
		{Options{Image: "left", Label: "kind"}, "l0 -1 7,l1 -1 ,"},
		{Options{Image: "left", Label: "count"}, "l0 3 ,l1 -1 ,"},
		{Options{Image: "kind"}, `there is no column "kind" for the image; the file has ["left" "right"]`},
		{Options{Image: "left", Label: "missing"}, `there is no column "missing" for the label`},
	} {
		got, err := scan("a.parquet", b, c.o)
		text := ""
		if err == nil {
			for _, s := range got.Samples {
				text += string(sample(t, b, s)) + " " + label(s) + " " + s.Class + ","
			}
		} else if text = c.want; !strings.Contains(err.Error(), c.want) || !errors.Is(err, ErrBad) {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("%+v: %s", c.o, text)
		}
	}
}

// TestFloatingLabels: labels may be whole numbers of floating point, as pandas writes them where
// one is missing.
func TestFloatingLabels(t *testing.T) {
	type row struct {
		Image  []byte   `parquet:"image"`
		Label  *float64 `parquet:"label,optional"`
		Single float32  `parquet:"single"`
		Score  float64  `parquet:"score"`
	}
	two, missing := 2.0, math.NaN()
	b := parquetOf(t, []row{{[]byte("0"), &two, 7, 0.5}, {[]byte("1"), nil, -1, 1}, {[]byte("2"), &missing, 0, 1e10}})
	for column, want := range map[string]string{"": "2 -1 -1 ", "single": "7 -1 0 "} {
		got, err := scan("a.parquet", b, Options{Label: column})
		testkit.Must(t, err)
		text := ""
		for _, s := range got.Samples {
			text += label(s) + " "
		}
		if text != want {
			t.Errorf("%q: labels %s", column, text)
		}
	}
	if _, err := scan("a.parquet", b, Options{Label: "score"}); !errors.Is(err, ErrBad) || !strings.Contains(err.Error(), "label 0.5 is not a whole number") {
		t.Error(err)
	}
	b = parquetOf(t, []row{{[]byte("0"), nil, 0, 1e10}})
	if _, err := scan("a.parquet", b, Options{Label: "score"}); !errors.Is(err, ErrBad) || !strings.Contains(err.Error(), "label 1e+10 is not") {
		t.Error(err)
	}
}

// TestNotes: Hugging Face's note about the columns names classes, which have to fit.
func TestNotes(t *testing.T) {
	type row struct {
		Photo  []byte `parquet:"photo"`
		Other  []byte `parquet:"other"`
		Coarse int64  `parquet:"coarse"`
		Fine   int64  `parquet:"fine"`
	}
	rows := []row{{[]byte("a"), []byte("b"), 0, 1}}
	for note, want := range map[string]string{
		`"photo":{"_type":"Image"},"fine":{"_type":"ClassLabel","names":["x","y"]},"tags":["list"]`:                            "",
		`"photo":{"_type":"Image"},"fine":{"_type":"ClassLabel","names":["x"]}`:                                                "label 1, but there are 1 classes",
		`"photo":{"_type":"Image"},"fine":{"_type":"ClassLabel","names":["x","x"]}`:                                            "not distinct",
		`"photo":{"_type":"Image"},"fine":{"_type":"ClassLabel","names":["x","y"]},"coarse":{"_type":"ClassLabel","names":[]}`: "coarse, fine; name one",
		`"photo":{"_type":"Image"},"other":{"_type":"Image"}`:                                                                  "photo, other; name one",
	} {
		b := parquetOf(t, rows, parquet.KeyValueMetadata("huggingface", `{"info":{"features":{`+note+`}}}`))
		got, err := scan("a.parquet", b, Options{})
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
			continue
		}
		if err != nil || got.Samples[0].Label != 1 || len(got.Classes) != 2 || string(sample(t, b, got.Samples[0])) != "a" {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// TestNames: paths are names if they are usable and differ; masks are named after their images.
func TestNames(t *testing.T) {
	type image struct {
		Bytes []byte `parquet:"bytes"`
		Path  string `parquet:"path"`
	}
	type row struct {
		Image image  `parquet:"image"`
		Mask  *image `parquet:"mask"`
	}
	for want, paths := range map[string][]string{
		"a.jpg c/b.jpg":         {"./a.jpg", "/c//b.jpg"},
		"000000000 000000001":   {"a.jpg", "a.jpg"},
		" 000000000 000000001":  {"a.jpg", "../b.jpg"},
		"000000000 000000001 ":  {"a.jpg", ""},
		" 000000000 000000001 ": {"a.jpg", strings.Repeat("x", maxName+1)},
	} {
		b := parquetOf(t, []row{{image{[]byte("1"), paths[0]}, nil}, {image{[]byte("2"), paths[1]}, &image{[]byte("m"), "m.png"}}})
		got, err := scan("a.parquet", b, Options{})
		if err != nil || got.Samples[0].Name+" "+got.Samples[1].Name != strings.TrimSpace(want) {
			t.Errorf("%.50q: %+v, %v", paths, got, err)
		}
		masks, err := scan("a.parquet", b, Options{Image: "mask"})
		if err != nil || len(masks.Samples) != 1 || masks.Samples[0].Name != got.Samples[1].Name+".mask" || string(sample(t, b, masks.Samples[0])) != "m" {
			t.Errorf("%.50q: %+v, %v", paths, masks, err)
		}
		table, err := ReadTable(t.Context(), bytes.NewReader(b), int64(len(b)), Options{})
		if err != nil || strings.Join(table.Names, " ") != strings.TrimSpace(want) || table.Image != "image" || table.Mask != "mask" || table.Others != nil {
			t.Errorf("%.50q: %+v, %v", paths, table, err)
		}
	}
}

// TestPathsOfNoType: a column of paths that has only nulls is not of strings, as pyarrow writes it.
func TestPathsOfNoType(t *testing.T) {
	type image struct {
		Bytes []byte `parquet:"bytes"`
		Path  *int32 `parquet:"path,optional"`
	}
	type row struct {
		Image image `parquet:"image"`
	}
	b := parquetOf(t, []row{{image{Bytes: []byte("1")}}, {image{Bytes: []byte("2")}}})
	got, err := scan("a.parquet", b, Options{})
	testkit.Must(t, err)
	if got.Samples[0].Name != "000000000" || string(sample(t, b, got.Samples[1])) != "2" {
		t.Errorf("%+v", got)
	}
}

// TestFields: the same for the fields of the other formats.
func TestFields(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"jpeg.mds", Options{Image: "caption"}, `no column holds images as jpeg, png, pil or bytes; it has ["caption" "image" "label" "weight"]`},
		{"jpeg.mds", Options{Label: "weight"}, `no column "weight" holds labels`},
		{"jpeg.mds", Options{Label: "caption"}, ""},
		{"imagenet.tfrecord-00000-of-00001", Options{Image: "none"}, `the first has ["image/`},
		{"imagenet.tfrecord-00000-of-00001", Options{Image: "image/height"}, "no feature of its records holds one image"},
		{"imagenet.tfrecord-00000-of-00001", Options{Label: "image/height"}, ""},
		{"wds-cls.tar", Options{Image: "png"}, `no sample has an image "png"`},
		{"wds-cls.tar", Options{Image: "jpg", Label: "cls"}, ""},
	} {
		got, err := scan(c.name, read(t, c.name), c.o)
		if c.want == "" && (err != nil || len(got.Samples) == 0) || c.want != "" && (!errors.Is(err, ErrBad) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %+v: %v", c.name, c.o, err)
		}
	}
	got, err := scan("a.mds", read(t, "jpeg.mds"), Options{Label: "caption"})
	if err != nil || got.Samples[2].Class != "xx" {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = scan("a.tfrecord", read(t, "imagenet.tfrecord-00000-of-00001"), Options{Label: "image/height"})
	if err != nil || got.Samples[2].Label != 6 {
		t.Errorf("%+v, %v", got, err)
	}
}

package dataset

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestClassesText: any class name takes one line, distinct names have distinct lines, and all of
// them are read back.
func TestClassesText(t *testing.T) {
	names := []string{"\tx", `"x"`, "a", "a b <&> é", "b\nc", `b\nc`, "b\r\x01\"", "c\x7f", "d\xff", "d\xff\n", "\r", " x "}
	lines := []string{`\tx`, `"x"`, "a", "a b <&> é", `b\nc`, `b\\nc`, `b\r\u0001\"`, "c\x7f", "d\xff", "d\xff\\n", `\r`, " x "}
	text := ClassesText(names)
	equal(t, lines, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), "")
	if back, err := ParseClasses(text); err != nil || !slices.Equal(back, names) {
		t.Errorf("read back as %q, %v", back, err)
	}
	if ClassesText(nil) != nil {
		t.Error("there is a text without classes")
	}
}

func TestParseClasses(t *testing.T) {
	for text, want := range map[string][]string{
		"b\na":                           {"b", "a"},
		"\xEF\xBB\xBFb\r\na c\r\n":       {"b", "a c"},
		`\ud83d\ude00` + "\n" + `\u00e9`: {"😀", "é"},
	} {
		if got, err := ParseClasses([]byte(text)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":             "it is empty",
		"\n":           "line 1 is empty",
		"a\n\nb\n":     "line 2 is empty",
		"a\nb\na\n":    `line 3: "a" is in line 1 already`,
		"a\nC:\\dir\n": "line 2: a backslash begins an escape",
		"a\\":          "line 1: a backslash begins an escape",
	} {
		if got, err := ParseClasses([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func FuzzClasses(f *testing.F) {
	f.Add("a\nb\\n\n\xff\\u00e9")
	f.Fuzz(func(t *testing.T, text string) {
		names, err := ParseClasses([]byte(text))
		if err != nil {
			return
		}
		if again, err := ParseClasses(ClassesText(names)); err != nil || !slices.Equal(again, names) {
			t.Errorf("%q: %q, then %q, %v", text, names, again, err)
		}
	})
}

// TestFoldersThatAreNoClasses: parts of a dataset and kinds of files are not taken for classes,
// from the index either; classes that merely resemble them are.
func TestFoldersThatAreNoClasses(t *testing.T) {
	for folders, meant := range map[string]string{
		"train val":              "train",
		"test train valid":       "train",
		"Testing Training":       "Training",
		"annotations/ train2017": "train2017",
		"annotations/ test2017 train2017 val2017 unlabeled2017": "train2017",
		"images masks":   "images",
		"images labels/": "images",
		"Annotations/ ImageSets/ JPEGImages SegmentationClass SegmentationObject": "JPEGImages",
		"gtFine leftImg8bit":       "leftImg8bit",
		"test_images train_images": "train_images",
		"val scripts/ docs/":       "val",
		"data":                     "data",
		"validation":               "validation",
		"ground_truth test":        "ground_truth",
		"train val dog":            "",
		"cat dog":                  "",
		"bus train car":            "",
		"mask no_mask":             "",
		"0 1 2":                    "",
		"n01440764":                "",
	} {
		p := newPlace(t)
		for name := range strings.FieldsSeq(folders) {
			if strings.HasSuffix(name, "/") {
				p.write(name+"notes.json", "{}")
			} else {
				p.images(name + "/1.jpg")
			}
		}
		p.settle()
		_, err := p.tryOpen("")
		found, _ := errors.AsType[*AmbiguousError](err)
		switch {
		case meant == "" && err != nil:
			t.Errorf("%s: %v", folders, err)
		case meant != "" && (found == nil || found.Meant != meant):
			t.Errorf("%s: %v, want %s", folders, err, meant)
		case meant != "":
			if n := p.probes(); n != 0 {
				t.Errorf("%s: %d headers were read first", folders, n)
			}
			for range 2 { // the second time, from the index
				if d := p.open("", func(o *Options) { o.AsClasses = true }); d.Classes == nil {
					t.Errorf("%s: no classes", folders)
				}
			}
			if _, err := p.tryOpen(""); err == nil {
				t.Errorf("%s: accepted from the index", folders)
			}
		}
	}
}

// TestGivenClasses: labels are places in the list, whichever of its classes are there; order and
// entry points do not depend on it.
func TestGivenClasses(t *testing.T) {
	p := newPlace(t)
	p.images("b/1.jpg", "d/1.jpg", "d/2.jpg")
	p.mkdir("c")
	p.write("names.csv", "path,label\nd/1.jpg,d\nb/1.jpg,b\nd/2.jpg,\n")
	p.write("numbers.csv", "path,label\nd/1.jpg,3\nb/1.jpg,0\nd/2.jpg,-1\n")
	p.settle()
	with := func(classes ...string) func(*Options) { return func(o *Options) { o.Classes = classes } }
	own := p.open("")
	for _, c := range []struct {
		manifest string
		classes  []string
		labels   []int
	}{
		{"", []string{"a", "b", "c", "d"}, []int{1, 3, 3}},
		{"", []string{"d", "c", "b"}, []int{2, 0, 0}},
		{"", []string{"b", "c", "d"}, []int{0, 2, 2}},
		{"names.csv", []string{"d", "c", "b"}, []int{0, 2, -1}},
		{"numbers.csv", []string{"a", "b", "c", "d"}, []int{3, 0, -1}},
	} {
		for range 2 {
			d := p.open(c.manifest, with(c.classes...))
			if !slices.Equal(labels(d), c.labels) || !slices.Equal(d.Classes, c.classes) || d.Report.Classes != len(c.classes) {
				t.Errorf("%s %q: labels %v, classes %q", c.manifest, c.classes, labels(d), d.Classes)
			}
			if c.manifest == "" && !slices.Equal(paths(d), paths(own)) {
				t.Errorf("%q: another order", c.classes)
			}
			if same := slices.Equal(c.classes, own.Classes); c.manifest == "" && same != (d.Digest == own.Digest) {
				t.Errorf("%q: digest equal %v", c.classes, !same)
			}
		}
	}
	if again := p.open(""); !slices.Equal(labels(again), labels(own)) || again.Digest != own.Digest {
		t.Error("the list outlived the dataset that it was given for")
	}
	p.probes()
	p.images("flat/1.jpg")
	p.settle()
	for _, c := range []struct {
		manifest string
		classes  []string
		words    string
	}{
		{"", []string{"b", "c"}, `it lacks class "d"`},
		{"", []string{"b", "d"}, `it lacks class "c"`}, // although that has no images
		{"names.csv", []string{"b"}, `it lacks class "d"`},
		{"numbers.csv", []string{"a", "b", "c"}, "d/1.jpg has label 3, but there are 3 classes"},
		{"flat", []string{"a"}, "the images have no labels"},
	} {
		p.refused(ErrClasses, c.words, c.manifest, with(c.classes...))
	}
}

// TestMetadata: as in Hugging Face's image folders, metadata in a directory is its manifest, and
// file_name is its path.
func TestMetadata(t *testing.T) {
	type record struct {
		FileName string  `parquet:"file_name"`
		Label    string  `parquet:"label"`
		Grade    float64 `parquet:"grade"`
	}
	column := func(name string) func(*Options) { return func(o *Options) { o.LabelColumn = name } }
	ignore := func(o *Options) { o.IgnoreMetadata = true }
	for name, write := range map[string]func(p *place){
		"metadata.csv": func(p *place) { p.write("metadata.csv", "label, file_name,grade\ndog,b/1.jpg,2\ncat,a/2.jpg,7.0\n") },
		"metadata.jsonl": func(p *place) {
			p.write("metadata.jsonl", `{"file_name":"b/1.jpg","label":"dog","grade":2}`+"\n"+`{"file_name":"a/2.jpg","label":"cat","grade":7}`)
		},
		"metadata.parquet": func(p *place) {
			writeParquet(p.t, p.path("metadata.parquet"), []record{{"b/1.jpg", "dog", 2}, {"a/2.jpg", "cat", 7}})
		},
	} {
		p := newPlace(t)
		p.images("b/1.jpg", "a/2.jpg", "a/3.jpg")
		write(p)
		p.settle()
		for range 2 { // the second time, each has its index
			d := p.open("")
			if !slices.Equal(paths(d), []string{"b/1.jpg", "a/2.jpg"}) || !slices.Equal(labels(d), []int{1, 0}) || d.Manifest != d.Root+"/"+name {
				t.Errorf("%s: %q %v, manifest %s", name, paths(d), labels(d), d.Manifest)
			}
			if named := p.open(name); named.Digest != d.Digest || named.IndexPath != d.IndexPath {
				t.Errorf("%s by its name is another dataset", name)
			}
			if d := p.open("", column("grade")); !slices.Equal(labels(d), []int{2, 7}) || d.Classes != nil {
				t.Errorf("%s by grade: %v %q", name, labels(d), d.Classes)
			}
			if d := p.open("", ignore); !slices.Equal(paths(d), []string{"a/2.jpg", "a/3.jpg", "b/1.jpg"}) || d.Manifest != "" {
				t.Errorf("%s ignored: %q", name, paths(d))
			}
		}
		p.refused(ErrManifest, `no row has one in a column "breed"`, "", column("breed"))
		p.write("metadata.x", "")
		p.write(map[bool]string{true: "metadata.jsonl", false: "metadata.csv"}[name == "metadata.csv"], "")
		p.refused(ErrManifests, "", "")
		if _, err := p.tryOpen("", ignore); err != nil {
			t.Errorf("two of them ignored: %v", err)
		}
	}
	p := newPlace(t)
	p.images("a/1.jpg")
	p.refused(nil, "label column must be left out", "", column("grade"))
	p.write("metadata.csv", "id,price\n1,2\n")
	p.refused(ErrManifest, `no "path" or "file_name"`, "")
	p.write("metadata.csv", "file_name,path,label\ntitle,a/1.jpg,1\n")
	if d := p.open(""); !slices.Equal(paths(d), []string{"a/1.jpg"}) {
		t.Errorf("path and file_name: %q", paths(d))
	}
}

// TestWhatIsNotSupportedYet: archives that cannot be read at random say so.
func TestWhatIsNotSupportedYet(t *testing.T) {
	p := newPlace(t)
	for _, name := range []string{"packs/1.tar.gz", "x.tar.gz", "x.lmdb", "empty.zip"} {
		p.write(name, "")
	}
	p.write("other/1.csv", "")
	p.write("other/2.csv", "")
	p.write("other/3.tar", "")
	for name, want := range map[string]error{
		"gone.TAR": ErrNotExist, "train-{000..255}.tar": ErrNotExist, "*.tar.nothing": ErrNotExist, "x.tar.gz": ErrArchive, "x.lmdb": ErrArchive, "empty.zip": ErrArchive,
		"packs": ErrArchive, "other": ErrEmpty,
		"gone": ErrNotExist, "gone.jpg": ErrNotExist, "tar": ErrNotExist,
	} {
		if _, err := p.tryOpen(name); !errors.Is(err, want) || want != ErrArchive && errors.Is(err, ErrArchive) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.images("of.zip/a/1.jpg")
	p.open("of.zip")
}

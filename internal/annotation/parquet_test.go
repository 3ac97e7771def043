package annotation

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/fakestore"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/target"
	"github.com/batchfs/batchfs/internal/testkit"
)

// An hfImage is an image as Hugging Face stores it.
type hfImage struct {
	Bytes []byte  `parquet:"bytes,plain"`
	Path  *string `parquet:"path"`
}

// hfObjects are objects as Hugging Face stores them.
type hfObjects struct {
	ID       []int64     `parquet:"id,list"`
	Area     []float64   `parquet:"area,list"`
	BBox     [][]float32 `parquet:"bbox,list"`
	Category []string    `parquet:"category,list"`
	Crowd    []bool      `parquet:"is_crowd,list"`
}

// hfNote is Hugging Face's note about columns.
func hfNote(features string) parquet.WriterOption {
	return parquet.KeyValueMetadata("huggingface", `{"info": {"features": {`+features+`}}}`)
}

func writeRows[R any](t *testing.T, path string, rows []R, options ...parquet.WriterOption) {
	t.Helper()
	options = append(options, parquet.MaxRowsPerRowGroup(2))
	for _, column := range []string{"image", "mask", "thumbnail"} {
		options = append(options, parquet.SkipPageBounds(column, "bytes")) // which may be as large as they are
	}
	testkit.Must(t, parquet.WriteFile(path, rows, options...))
}

// picture is an image of a size in bytes; only its beginning is one.
func picture(name string, size int) hfImage {
	data := []byte("\xff\xd8\xff" + strings.Repeat(name, size/len(name)))
	return hfImage{data, &name}
}

var everything = kindsOf(target.Masks, target.Boxes, target.Keypoints, target.Text)

// TestParquetImages: columns beside images mean the same as in a manifest.
func TestParquetImages(t *testing.T) {
	type Said struct {
		Label     int64      `parquet:"label"`
		Height    int32      `parquet:"height"`
		Width     int32      `parquet:"width"`
		Boxes     string     `parquet:"boxes"`
		Objects   *hfObjects `parquet:"objects"`
		Keypoints string     `parquet:"keypoints"`
		Caption   string     `parquet:"caption"`
		Tags      []string   `parquet:"tags,list"`
	}
	type row struct {
		Path string `parquet:"path"`
		Said
	}
	type packed struct {
		Image     hfImage `parquet:"image"`
		Mask      hfImage `parquet:"mask"`
		Thumbnail hfImage `parquet:"thumbnail"`
		Said
	}
	var rows []row
	var images []packed
	for k := range 7 {
		r := row{fmt.Sprintf("d/%d.jpg", k), Said{Label: int64(k), Height: 100, Width: int32(200 + k), Caption: fmt.Sprint("caption ", k), Tags: []string{"a", "b"}[:k%3]}}
		switch k % 3 {
		case 0:
			r.Boxes = `[{"box":[1,2,3,4],"label":"dog"},[0,0,5,5,"cat"]]`
		case 1:
			r.Objects = &hfObjects{
				[]int64{7, 8}, []float64{12, 1}, [][]float32{{1, 2, 3, 4}, {0, 0.5, 1, 1}}, []string{"dog", "cat"}, []bool{false, true},
			}
			r.Keypoints = "[[1,1,2],[2,2,1]]"
		}
		rows = append(rows, r)
		images = append(images, packed{picture(r.Path, 1<<20), picture("mask", 1<<20), picture("t", 1<<20), r.Said})
	}
	root := t.TempDir()
	dir := root + "/bucket"
	for _, name := range []string{"m", "one", "several/data"} {
		testkit.Must(t, os.MkdirAll(dir+"/"+name, 0o755))
	}
	writeRows(t, dir+"/m/m.parquet", rows)
	writeRows(t, dir+"/one/one.parquet", images)
	writeRows(t, dir+"/several/data/train-0.parquet", images[:3])
	writeRows(t, dir+"/several/data/train-1.parquet", images[3:3])
	writeRows(t, dir+"/several/data/train-2.parquet", images[3:])

	var sent atomic.Int64
	server := httptest.NewServer(counted(&fakestore.Server{Dir: root}, &sent))
	defer server.Close()
	o := Options{Kinds: everything.without(kindsOf(target.Masks)), Source: dataset.Options{Workers: 2, Store: store.Options{Endpoint: server.URL, Anonymous: true, Region: "us-east-1"}}}
	manifest, want := find(t, dir+"/m/m.parquet", o)
	if one := want["d/1.jpg"]; len(one.Objects) != 2 || one.Objects[0].Box[2] != 4 || one.Objects[0].ID != 7 || one.Objects[1].Flags != 1 || one.Bad != "" || one.Text != `{"caption":"caption 1","tags":["a"]}` {
		t.Errorf("%+v", one)
	}
	named := map[string]said{}
	for name, image := range want {
		shard := "train-0.parquet/"
		if name > "d/2.jpg" {
			shard = "train-2.parquet/"
		}
		named["data/"+shard+name] = image
	}
	for place, want := range map[string]map[string]said{
		"/one/one.parquet": want, "/one": want, "/several": named, "/several/data/train-*.parquet": dropped(named, "data/"), "/several/data": dropped(named, "data/"),
	} {
		for _, at := range []string{dir, "s3://bucket"} {
			sent.Store(0)
			f, got := find(t, at+place, o)
			if diff := cmp.Diff(want, got, plainly); diff != "" {
				t.Errorf("%s: %s", at+place, diff)
			}
			if f.Layout != "Parquet" || fmt.Sprint(f.Classes) != fmt.Sprint(manifest.Classes) || f.Masks != nil {
				t.Errorf("%s: %+v", at+place, f)
			}
			if sent.Load() > 4<<20 {
				t.Errorf("%s: %d bytes were read", at+place, sent.Load())
			}
			m := o
			m.Kinds = kindsOf(target.Masks)
			if f, got := find(t, at+place, m); f.Masks.Field != "mask" || f.Masks.Ending != ".mask" || f.Masks.Path != at+place || len(got) != len(want) {
				t.Errorf("%s: masks are %+v of %d images", at+place, f.Masks, len(got))
			}
		}
	}
}

// counted counts the bytes that a server sends.
func counted(h http.Handler, n *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(countedWriter{w, n}, r) })
}

type countedWriter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (w countedWriter) Write(p []byte) (int, error) {
	w.n.Add(int64(len(p)))
	return w.ResponseWriter.Write(p)
}

// dropped removes the beginning of images' names.
func dropped(all map[string]said, prefix string) map[string]said {
	short := map[string]said{}
	for name, image := range all {
		short[strings.TrimPrefix(name, prefix)] = image
	}
	return short
}

// TestHuggingFaceColumns: the meaning of the columns of datasets on Hugging Face.
func TestHuggingFaceColumns(t *testing.T) {
	dir := t.TempDir()
	type masked struct {
		Pixels     hfImage `parquet:"pixel_values"`
		Label      hfImage `parquet:"label"`
		Annotation string  `parquet:"annotation"`
	}
	images := []masked{{picture("a.jpg", 99), picture("x", 99), "text"}, {picture("b.jpg", 99), picture("x", 99), ""}}
	writeRows(t, dir+"/label.parquet", images, hfNote(`"pixel_values": {"_type": "Image"}, "label": {"_type": "Image"}, "annotation": {"dtype": "string", "_type": "Value"}`))
	type raw struct {
		Image        []byte `parquet:"image"`
		Annotation   []byte `parquet:"annotation"`
		Segmentation []byte `parquet:"segmentation"`
		Label        int32  `parquet:"label"`
	}
	writeRows(t, dir+"/raw.parquet", []raw{{picture("a", 99).Bytes, []byte("no image"), picture("m", 99).Bytes, 3}})
	for file, want := range map[string]string{"label": "label", "raw": "segmentation"} {
		f, got := find(t, dir+"/"+file+".parquet", masks)
		if f.Masks.Field != want {
			t.Errorf("%s: %+v, %v", file, f.Masks, got)
		}
	}
	f, got := find(t, dir+"/label.parquet", Options{Kinds: kindsOf(target.Text)})
	if f.Masks != nil || got["a.jpg"].Text != `{"annotation":"text"}` {
		t.Errorf("%+v, %v", f, got)
	}

	type object struct {
		BBox     []float64 `parquet:"bbox,list"`
		Category *int32    `parquet:"category_id"`
		Crowd    int32     `parquet:"iscrowd"`
	}
	type boxed struct {
		Image   hfImage  `parquet:"image"`
		Objects []object `parquet:"objects,list"`
		Say     string   `parquet:"say"`
	}
	zero, one, two := int32(0), int32(1), int32(2)
	rows := []boxed{
		{picture("a.jpg", 99), []object{{[]float64{1, 2, 3, 4}, &one, 1}, {[]float64{1, 2, 3, 4}, &zero, 0}}, "x"}, {picture("b.jpg", 99), nil, "y"},
		{picture("c.jpg", 99), []object{{[]float64{1, 2, 3, 4}, &two, 0}}, ""}, {picture("d.jpg", 99), []object{{[]float64{1, 2, -3, 4}, &one, 0}}, ""},
		{picture("e.jpg", 99), []object{{[]float64{1, 2, 3}, nil, 0}}, ""}, {picture("f.jpg", 99), []object{{[]float64{1, 2, 3, 4}, nil, 0}}, ""},
	}
	writeRows(t, dir+"/boxes.parquet", rows, hfNote(`"image": {"_type": "Image"}, "objects": {"feature": {"bbox": {"feature": {"_type": "Value"}, "_type": "Sequence"},
		"category_id": {"names": ["cat", "a dog"], "_type": "ClassLabel"}}, "_type": "List"}`))
	f, got = find(t, dir+"/boxes.parquet", Options{Kinds: kindsOf(target.Boxes, target.Text)})
	if fmt.Sprint(f.Classes) != "[cat a dog]" {
		t.Errorf("%q", f.Classes)
	}
	for name, want := range map[string]string{
		"a.jpg": `[{[1 2 4 6] [] 1 0 1 [] <nil>} {[1 2 4 6] [] 0 1 0 [] <nil>}] {"say":"x"} `, "b.jpg": `[] {"say":"y"} `,
		"c.jpg": `[] {"say":""} boxes.parquet: row 3: the label is 2, but there are 2 classes`, "d.jpg": `[] {"say":""} boxes.parquet: row 4: bbox has a negative size`,
		"e.jpg": `[] {"say":""} boxes.parquet: row 5: bbox has 3 numbers instead of x, y, width, height`,
		"f.jpg": `[] {"say":""} boxes.parquet: row 6: boxes[0] has no label, but the labels are classes`,
	} {
		g := got[name]
		if is := fmt.Sprint(g.Objects, " ", g.Text, " ", strings.TrimPrefix(g.Bad, dir+"/")); is != want {
			t.Errorf("%s: %s, and not %s", name, is, want)
		}
	}
}

// TestBadColumns: a bad row makes its image bad, and a bad file is an error.
func TestBadColumns(t *testing.T) {
	type row struct {
		Image  hfImage `parquet:"image"`
		Height int32   `parquet:"height"`
		Width  int32   `parquet:"width"`
		Boxes  string  `parquet:"boxes"`
	}
	root := t.TempDir()
	dir := root + "/bucket"
	write(t, dir, map[string]string{"m.csv": "path,boxes,mask\nx/a.jpg,\"[[1,2]]\",\nb.jpg,,s3://bucket/masks/b.png\nc.jpg,,../c.png\n"})
	writeRows(t, dir+"/p.parquet", []row{
		{picture("a", 9), 1, 1, "[[1,2,3,4]]"}, {picture("b", 9), 0, 1, "[]"}, {picture("c", 9), 1, 1, "[[1,2"}, {picture("d", 9), 1, 1, `{"bbox":[[1,2,3,4]],"label":[1,2]}`},
		{picture("e", 9), 1, 1, `[{"label":1}]`}, {picture("f", 9), 1, 1, `{"bbox":7}`},
	})
	server := httptest.NewServer(&fakestore.Server{Dir: root})
	defer server.Close()
	o := Options{Kinds: kindsOf(target.Boxes), Source: dataset.Options{Store: store.Options{Endpoint: server.URL, Anonymous: true, Region: "us-east-1", Wait: -1}}}
	for _, at := range []string{dir, "s3://bucket"} {
		o := o
		_, got := find(t, at+"/p.parquet", o)
		for name, rule := range map[string]string{
			"a": "", "b": "row 2: height", "c": "row 3: ", "d": "row 4: boxes: there are 1 of bbox, but 2 of label", "e": "row 5: boxes[0] is not", "f": "row 6: boxes: bbox is no list",
		} {
			if bad := got[name].Bad; !strings.HasPrefix(bad, at+"/p.parquet: ") && rule != "" || !strings.Contains(bad, rule) || (rule == "") != (bad == "") {
				t.Errorf("%s: %q", name, bad)
			}
		}
		o.Kinds = kindsOf(target.Boxes, target.Masks)
		f, got := find(t, at+"/m.csv", o)
		if bad := got["x/a.jpg"].Bad; !strings.HasPrefix(bad, at+"/m.csv: line 2: boxes[0] is not") || f.Masks.Path != at+"/m.csv" || f.Masks.Column != "mask" {
			t.Errorf("%q, %+v", bad, f.Masks)
		}
		if mask := got["b.jpg"].Mask; (mask == "masks/b.png") != (at != dir) || got["c.jpg"].Mask != "../c.png" {
			t.Errorf("masks are %q and %q", mask, got["c.jpg"].Mask)
		}
	}

	good, err := os.ReadFile(dir + "/p.parquet")
	testkit.Must(t, err)
	failed := 0
	for k := 0; k < len(good); k += 1 + len(good)/300 {
		bad := append([]byte(nil), good...)
		bad[k] ^= 0x5a
		write(t, dir, map[string]string{"p.parquet": string(bad)})
		if _, _, err := tryFind(t, dir+"/p.parquet", o); err != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no damage was noticed")
	}
}

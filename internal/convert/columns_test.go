package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/shard"
)

// rowsOf returns what opens the rows of a manifest.
func rowsOf(path string) func(context.Context) (*dataset.Rows, error) {
	return func(ctx context.Context) (*dataset.Rows, error) {
		return dataset.FindRows(ctx, path, dataset.Options{AllowOutside: true})
	}
}

// columnsIn returns the rows of a manifest or of Parquet with images, but for the paths of the
// samples. Paths of files are replaced by what is in these.
func columnsIn(t *testing.T, path string) (all []dataset.Row) {
	t.Helper()
	rows, err := rowsOf(path)(t.Context())
	if err != nil || rows == nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if rows.InOrder = true; rows.Packed {
		testkit.Must(t, rows.Look(t.Context()))
	}
	err = rows.Each(t.Context(), func(string) bool { return true }, nil, func(r *dataset.Row) error {
		for _, name := range []string{"mask", "pose"} {
			if file, isText := textOf(r.Columns[name]); isText {
				file = rows.Clean(file)
				if !filepath.IsAbs(file) {
					file = filepath.Join(filepath.Dir(path), file)
				}
				text, err := os.ReadFile(file)
				r.Columns[name] = fmt.Sprintf("%s, %v", text, err == nil)
			}
		}
		for name, value := range r.Columns {
			if value == "" { // not given
				delete(r.Columns, name)
			}
		}
		all = append(all, dataset.Row{Height: r.Height, Width: r.Width, Columns: r.Columns})
		return nil
	})
	testkit.Must(t, err)
	return all
}

// TestColumns: the result's manifest says of each sample what the source's says, and the files that
// it names are there.
func TestColumns(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"d/a.png": pngOf(t, 4, 6, false), "d/b.png": pngOf(t, 5, 3, true), "d/c.bmp": bmpOf(t, 3, 3), "d/masks/a.png": []byte("mask a"), "d/masks/b.png": []byte("mask b"),
		"e/far.png": []byte("a mask elsewhere"), "d/pose/a.npy": []byte("an array"),
	} {
		write(t, filepath.Join(dir, name), data)
	}
	type nested struct {
		N    int64     `parquet:"n"`
		List []float32 `parquet:"list,list"`
	}
	type line struct {
		Path    string   `parquet:"path"`
		Mask    *string  `parquet:"mask"`
		Pose    *string  `parquet:"pose"`
		Label   string   `parquet:"label"`
		Boxes   string   `parquet:"boxes"`
		Caption string   `parquet:"caption"`
		Half    *float64 `parquet:"half"`
		More    nested   `parquet:"more"`
		Height  int32    `parquet:"height"`
		Width   int32    `parquet:"width"`
	}
	a, b, far, gone, pose, half := "masks/a.png", "./masks/b.png", "../e/far.png", "masks/gone.png", "pose/a.npy", 0.5
	var parquetBytes bytes.Buffer
	if err := parquet.Write(&parquetBytes, []line{
		{"a.png", &a, &pose, "x", `[[1,2,3,4,"cat"]]`, "<a> \"quoted\"", &half, nested{1 << 60, []float32{1, 2.5}}, 4, 6},
		{"b.png", &b, nil, "y", "[]", "", nil, nested{}, 5, 3},
		{"c.bmp", &far, &pose, "x", "[]", "two\nlines, ü", nil, nested{}, 3, 3},
		{"a.png", &gone, nil, "x", "[]", "again", nil, nested{}, 4, 6},
	}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"m.csv": "caption,path,label,mask,pose,boxes,height,width\n" +
			"\"<a> \"\"quoted\"\"\",a.png,x,masks/a.png,pose/a.npy,\"[[1,2,3,4,\"\"cat\"\"]]\",4,6\n,b.png,y,./masks/b.png,,[],,\n\"two\nlines, ü\",c.bmp,x,../e/far.png,pose/a.npy,[],3,3\n5,a.png,x,masks/gone.png,,,4,6\n",
		"m.jsonl": `{"file_name":"a.png","label":"x","mask":"masks/a.png","pose":"pose/a.npy","boxes":[{"box":[1,2,3,4],"label":"cat"}],"caption":"<a>","n":123456789012345678901,"height":4,"width":6}
{"path":"b.png","label":"y","mask":"./masks/b.png","boxes":[],"caption":{"z":[1, 2],"a":null},"n":null}
{"path":"c.bmp","label":"x","mask":"../e/far.png","pose":"pose/a.npy","caption":"","height":3,"width":3}
{"path":"a.png","label":"x","mask":"masks/gone.png","caption":7,"height":4,"width":6}
`,
		"m.parquet": parquetBytes.String(),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "d", name)
			write(t, path, []byte(text))
			for _, shares := range []Shares{{Raw: 1}, {Packed: 1}} {
				_, r := convert(t, path, Options{Shares: shares, Manifest: path, Rows: rowsOf(path)})
				if diff := cmp.Diff(columnsIn(t, path), columnsIn(t, r.Manifest), cmp.AllowUnexported(dataset.Row{})); diff != "" {
					t.Errorf("%+v: %s", shares, diff)
				}
				if !slices.Contains(r.Carried, "mask") || r.LeftOut != nil || r.ColumnFiles != 4 || r.Turned != 0 {
					t.Errorf("reported %+v, %d files", r.Columns, r.ColumnFiles)
				}
				sameSamples(t, open(t, path), open(t, r.Manifest))
				if strings.HasSuffix(name, ".parquet") { // other programs read it, too
					text, err := os.ReadFile(r.Manifest)
					testkit.Must(t, err)
					file, err := parquet.OpenFile(bytes.NewReader(text), int64(len(text)))
					testkit.Must(t, err)
					for _, column := range []string{"caption (STRING)", "more (JSON)", "mask (STRING)"} {
						if schema := file.Schema().String(); !strings.Contains(schema, column) {
							t.Errorf("no %s in %s", column, schema)
						}
					}
				}
			}
		})
	}
}

// TestColumnsOfParquet: what Parquet says of the images in it, except for masks, becomes columns of
// the manifest.
func TestColumnsOfParquet(t *testing.T) {
	type picture struct {
		Bytes []byte `parquet:"bytes"`
	}
	type line struct {
		Image   picture     `parquet:"image"`
		Mask    picture     `parquet:"mask"`
		Caption string      `parquet:"caption"`
		Boxes   [][]float64 `parquet:"boxes,list"`
	}
	dir := t.TempDir()
	for k := range 3 {
		var lines []line
		for i := range 4 {
			lines = append(lines, line{picture{pngOf(t, 3, 2+i, false)}, picture{pngOf(t, 3, 2+i, true)}, fmt.Sprint(k, i), nil})
		}
		var text bytes.Buffer
		testkit.Must(t, parquet.Write(&text, lines))
		write(t, filepath.Join(dir, fmt.Sprintf("%d.parquet", k)), text.Bytes())
	}
	_, r := convert(t, dir, Options{Shares: Shares{Raw: 0.5}, Rows: rowsOf(dir)})
	if diff := cmp.Diff(columnsIn(t, dir), columnsIn(t, r.Manifest)); diff != "" {
		t.Error(diff)
	}
	want := Columns{Carried: []string{"boxes", "caption"}, LeftOut: []LeftOut{{[]string{"mask"}, "the masks are in the files of the images"}}}
	if diff := cmp.Diff(want, r.Columns); diff != "" {
		t.Error(diff)
	}
}

// TestColumnsThatDoNotFit: what is said of the pixels of a sample is not said of a file with other
// pixels.
func TestColumnsThatDoNotFit(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, gen.Write(t.Context(), gen.Options{Dir: filepath.Join(dir, "d"), Images: 60, Kind: gen.Mixed, Seed: 3}))
	folder := open(t, filepath.Join(dir, "d"))
	text := "path,caption,boxes\n"
	turned := map[string]bool{}
	for i := range folder.Len() {
		text += folder.Path(i) + ",\"a photo\",\"[[0,0,1,1]]\"\n"
		turned[folder.Path(i)] = folder.Orientation(i) > 1
	}
	path := filepath.Join(dir, "d", "m.csv")
	write(t, path, []byte(text))
	o := Options{Shares: Shares{Raw: 1}, Manifest: path, Rows: rowsOf(path)}
	_, r := convert(t, path, o)
	is := open(t, r.Manifest)
	count := 0
	for i := range is.Len() {
		if turned[folder.Path(i)] {
			if count++; sample.CostOf(is, i) == shard.Raw {
				t.Errorf("%s was turned upright", folder.Path(i))
			}
		}
	}
	if count == 0 || r.Turned != count || r.Raw < 10 {
		t.Errorf("%d of %d turned images, %d raw", r.Turned, count, r.Raw)
	}

	o.Resize, o.Height, o.Width = resample.Stretch, 5, 5
	_, r = convert(t, path, o)
	want := Columns{Carried: []string{"caption"}, LeftOut: []LeftOut{{[]string{"boxes"}, "raw images have another size"}}}
	if diff := cmp.Diff(want, r.Columns); diff != "" {
		t.Error(diff)
	}
	o.IgnoreOrientation, o.Resize, o.Height, o.Width = true, resample.None, 0, 0
	if _, r = convert(t, path, o); r.Turned != 0 || len(r.Carried) != 2 {
		t.Errorf("as stored: %+v", r.Columns)
	}
}

// TestColumnsRefused: files that a manifest may not name, names that are taken, and columns that
// have changed since an earlier run.
func TestColumnsRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "d/a.png"), pngOf(t, 4, 6, false))
	write(t, filepath.Join(dir, "e/a.png"), []byte("mask"))
	write(t, filepath.Join(dir, "d/a.png.bmp"), []byte("a mask with the name of a raw image"))
	path, out := filepath.Join(dir, "d/m.csv"), filepath.Join(dir, "out")
	run := func(text string, allow bool) error {
		write(t, path, []byte(text))
		o := Options{Shares: Shares{Raw: 1}, Manifest: path}
		o.Rows = func(ctx context.Context) (*dataset.Rows, error) {
			return dataset.FindRows(ctx, path, dataset.Options{AllowOutside: allow})
		}
		_, err := Write(t.Context(), open(t, path), out, o)
		return err
	}
	if err := run("path,mask\na.png,../e/a.png\n", false); !errors.Is(err, dataset.ErrOutside) || !strings.Contains(err.Error(), "line 2: mask") {
		t.Errorf("outside: %v", err)
	}
	for mask, want := range map[string]string{"a.png.bmp": "a sample has that name", "m.csv": "m.csv is reserved"} {
		if err := run("path,mask\na.png,"+mask+"\n", false); !errors.Is(err, ErrName) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", mask, err)
		}
		testkit.Must(t, os.RemoveAll(out+stagingSuffix))
	}
	if err := run("path,mask\na.png,../e\n", true); err != nil {
		t.Errorf("a directory: %v", err)
	}
	testkit.Must(t, os.RemoveAll(out))
	testkit.Must(t, run("path,caption,mask\na.png,one,../e/a.png\n", true))
	if err := run("path,caption,mask\na.png,two,../e/a.png\n", true); !errors.Is(err, ErrSource) {
		t.Errorf("another caption: %v", err)
	}
}

package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// TestTargetsInColumns: a folder with a manifest has the same masks, boxes and texts if the
// manifest is in a store, if they are in the columns of Parquet files with the images, here and in
// a store, and if the folder is converted.
func TestTargetsInColumns(t *testing.T) {
	type picture struct {
		Bytes []byte  `parquet:"bytes"`
		Path  *string `parquet:"path"`
	}
	type objects struct {
		BBox     [][]float32 `parquet:"bbox,list"`
		Category []string    `parquet:"category,list"`
		Crowd    []bool      `parquet:"iscrowd,list"`
	}
	type row struct {
		Image   picture  `parquet:"image"`
		Mask    *picture `parquet:"mask"`
		Label   int32    `parquet:"label"`
		Objects objects  `parquet:"objects"`
		Caption string   `parquet:"caption"`
	}
	m := newMasked(t)
	root := filepath.Dir(m.dir)
	var rows []row
	var manifest strings.Builder
	for id := range maskedImages {
		name := fmt.Sprintf("%02d.png", id)
		image := mustRead(t, filepath.Join(m.dir, "images", name))
		mask := mustRead(t, m.mask(id))
		r := row{Image: picture{image, &name}, Mask: &picture{mask, nil}, Label: int32(id % 5), Caption: fmt.Sprint("picture ", id)}
		line := map[string]any{"file_name": "images/" + name, "mask": "masks/" + name, "label": r.Label, "caption": r.Caption}
		if id%5 == 4 {
			r.Mask = nil
			delete(line, "mask")
		}
		boxes := []any{}
		for k := range id % 3 {
			x, class, crowd := float32(id+k), fmt.Sprint("class ", id%4), k == 1
			r.Objects.BBox = append(r.Objects.BBox, []float32{x, 2, 8, 9.5})
			r.Objects.Category, r.Objects.Crowd = append(r.Objects.Category, class), append(r.Objects.Crowd, crowd)
			boxes = append(boxes, map[string]any{"box": []float32{x, 2, x + 8, 11.5}, "label": class, "crowd": crowd})
		}
		line["boxes"] = boxes
		text, err := json.Marshal(line)
		check(t, err)
		fmt.Fprintf(&manifest, "%s\n", text)
		rows = append(rows, r)
	}
	writeFile(t, filepath.Join(m.dir, "metadata.jsonl"), []byte(manifest.String()))
	check(t, os.Mkdir(filepath.Join(root, "packed"), 0o755))
	for k, part := range [][]row{rows[:5], rows[5:]} {
		check(t, parquet.WriteFile(filepath.Join(root, "packed", fmt.Sprintf("train-%d.parquet", k)), part, parquet.MaxRowsPerRowGroup(3)))
	}
	_, there := objectStore(t, root)
	flags := strings.Fields("--targets masks,boxes,text --shuffle --seed 3 --batch-size 4 --resize random-resized-crop --size 20x20 --flip 0.5 --list " +
		"nhwc,labels.npy,masks.npy,boxes.npy,boxes.labels.npy,boxes.offsets.npy,boxes.ids.npy,boxes.flags.npy,text.jsonl")
	want := allBatches(t, mountBatchfs(t, m.dir, flags...), 1)
	if len(want) != 2*4*9 {
		t.Errorf("there are %d files", len(want))
	}
	for _, place := range []string{
		there[1] + "/masked/metadata.jsonl", root + "/packed", "s3://packed/train-*.parquet",
	} {
		all := flags
		if strings.Contains(place, "://") {
			all = slices.Concat(flags, there)
		}
		for range 2 { // the first mount has kept what it read
			sameFrom(t, want, 1, place, all...).finish(t)
		}
	}
	for name, shares := range map[string][]string{"packed": {"--packed-ratio", "1"}, "raw": {"--raw-ratio", "1"}} {
		out := filepath.Join(t.TempDir(), name)
		execute(t, append([]string{"convert", m.dir, out}, shares...)...).done(t)
		sameFrom(t, want, 1, out, flags...).finish(t)
	}
}

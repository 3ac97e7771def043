package integration

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// TestReadLikeImageFolder compares order and labels with torchvision's ImageFolder, from
// the directory to the batches.
func TestReadLikeImageFolder(t *testing.T) {
	const program = `
import json, sys
from torchvision.datasets import ImageFolder
folder = ImageFolder(sys.argv[1])
print(json.dumps({"Classes": folder.classes, "Samples": [[p[len(sys.argv[1]) + 1:], l] for p, l in folder.samples]}))
`
	python := testkit.Python(t, "torchvision")
	dir := filepath.Join(scratch(t), "images")
	for i, name := range []string{
		"b/2.ppm", "b/10.ppm", "b/1.ppm", "B/x.PPM", "a/z.ppm", "a/sub/a.ppm", "a/sub/deeper/b.ppm", "a/Sub/c.pgm", "ä/1.ppm", "a-b/1.ppm", "a b/1.ppm",
		"a.b/1.ppm", "10/1.ppm", "9/1.ppm", "9/1.txt", "9/a-1.ppm", "9/a.1.ppm", "9/a1.ppm", "9/A1.ppm", "top.ppm",
	} {
		writeFile(t, filepath.Join(dir, name), plainImage(1+i%3, 2, byte(i)))
	}
	var want struct {
		Classes []string
		Samples [][2]any
	}
	out, err := output(thisUser().reader(0, []string{python, "-c", program, dir}))
	check(t, err)
	check(t, json.Unmarshal([]byte(out), &want))
	m := mountBatchfs(t, dir, "--batch-size", "4", "--last-batch", "partial")
	var got [][2]any
	for b := range m.batches(t, 0, 0) {
		var doc batchDoc
		m.document(t, filepath.Join("shard-0/epoch-0", layout.BatchName(b)+".json"), &doc)
		var labels []int64
		for _, s := range doc.Samples {
			got = append(got, [2]any{s.Path, float64(s.Label)})
			labels = append(labels, s.Label)
		}
		data := mustRead(t, m.path(0, 0, b, layout.Labels))
		if err := sameArray(data, "<i8", []int{len(labels)}, littleEndian(labels), 0); err != nil {
			t.Errorf("labels of batch %d: %v", b, err)
		}
	}
	if diff := cmp.Diff(want.Samples, got); diff != "" {
		t.Errorf("samples: %s", diff)
	}
	var classes string
	for _, c := range want.Classes {
		classes += c + "\n"
	}
	if got := m.run(t, "cat", filepath.Join(m.dir, "classes.txt")); got != classes {
		t.Errorf("classes: %s", cmp.Diff(classes, got))
	}
}

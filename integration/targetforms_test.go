package integration

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// TestTargetsOfAMount: every form of targets has the size that stat says, whatever was opened
// before; boxes are those of the samples that a batch shows, and .safetensors has the same.
func TestTargetsOfAMount(t *testing.T) {
	m := newMasked(t)
	for id := range maskedImages {
		var lines strings.Builder
		for k := range id % 4 {
			fmt.Fprintf(&lines, "%d 0.5 0.5 %g 0.5\n", k, 0.25+0.125*float64(k))
		}
		writeFile(t, filepath.Join(m.dir, "labels", fmt.Sprintf("%02d.txt", id)), []byte(lines.String()))
	}
	for name, flags := range map[string][]string{
		"packed": nil, "as many in each slot": {"--max-boxes", "2"}, "resized": {"--resize", "random-resized-crop", "--size", "20x20", "--flip", "0.5", "--shuffle", "--min-visibility", "0.5"},
	} {
		t.Run(name, func(t *testing.T) {
			mount := mountBatchfs(t, filepath.Join(m.dir, "images"), append([]string{"--targets", "boxes", "--batch-size", fmt.Sprint(maskedBatch)}, flags...)...)
			for batch := range 4 {
				read := func(f layout.Form) []byte {
					path := mount.path(0, 0, batch, f)
					info, err := os.Stat(path)
					if err != nil {
						t.Fatal(err)
					}
					file, err := os.ReadFile(path)
					if err != nil || int64(len(file)) != info.Size() {
						t.Errorf("%s: %d bytes of %d, %v", path, len(file), info.Size(), err)
					}
					return file
				}
				read(layout.NHWCForm) // of which .safetensors may be a copy
				all := string(read(layout.SafeTensors))
				const header = 128
				for _, f := range []layout.Form{layout.Boxes, layout.BoxLabels, layout.BoxIDs, layout.BoxFlags} {
					if data := read(f)[header:]; !strings.Contains(all, string(data)) {
						t.Errorf("batch %d: .safetensors has not what .%s has", batch, f)
					}
				}
				read(layout.PNG)
				doc := mount.batchDoc(t, 0, 0, batch)
				if name != "packed" {
					continue
				}
				offsets := read(layout.BoxOffsets)[header:]
				for i, s := range doc.Samples {
					at := func(i int) int { return int(binary.LittleEndian.Uint64(offsets[8*i:])) }
					labels := read(layout.BoxLabels)[header:][8*at(i) : 8*at(i+1)]
					var got []int
					for ; len(labels) > 0; labels = labels[8:] {
						got = append(got, int(binary.LittleEndian.Uint64(labels)))
					}
					if want := []int{0, 1, 2, 3}[:s.ID%4]; !slices.Equal(got, want) {
						t.Errorf("batch %d: slot %d shows %d, which has the labels %d, not %d", batch, i, s.ID, want, got)
					}
				}
			}
		})
	}
}

package fusefs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/target"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/shard"
)

// TestTargetSizes: the files of targets have the announced sizes, whatever became of the samples of
// their batch. Rows of samples that are not shown are not used.
func TestTargetSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 5))
	dir := t.TempDir()
	const n = 23
	b := target.NewBuilder("")
	for i := range n {
		name, h, w := fmt.Sprintf("%02d.ppm", i), 1+r.IntN(30), 1+r.IntN(30)
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), append(fmt.Appendf(nil, "P6 %d %d 255\n", w, h), make([]byte, 3*h*w)...), 0o600))
		if i%5 == 4 {
			continue
		}
		image := b.Image(name, h, w, false)
		b.Text(image, fmt.Appendf(nil, `{"caption":"%0*d"}`, 1+r.IntN(40), i))
		for k := range r.IntN(6) {
			x, y := r.Float32()*float32(w), r.Float32()*float32(h)
			o := target.Object{Box: target.Box{x, y, x + 5, y + 5}, Label: int32(k), ID: int64(100*i + k)}
			if k%2 == 0 {
				o.Visible, o.Keypoints = &target.Box{x, y, x + 1, y + 1}, make([]target.Keypoint, 1+k)
			}
			b.Object(image, o)
		}
	}
	ds, err := dataset.Open(t.Context(), dir, dataset.Options{Workers: 1, Prober: sample.Probe})
	testkit.Must(t, err)
	defer ds.Close()
	table, err := b.Table(n, ds.Path)
	testkit.Must(t, err)
	for round := range 60 {
		o := catalog.Options{
			Config: shard.Config{Shards: 2, BatchSize: 4, PadLastBatch: true, Shuffle: true, Seed: uint64(round)}, Epochs: 3,
			Decoding: decode.Options{MaxPixels: 1 << 20}, OnError: catalog.Replace,
			Transform: resample.Options{
				Mode: resample.Mode(round % 6), Height: 9, Width: 13, ResizeTo: 13, CropArea: [2]float64{0.1, 1}, CropRatio: resample.DefaultCropRatio, Flip: 0.5,
			},
			Targets: &catalog.TargetOptions{
				Table: table, Rules: target.Rules{Max: round % 4 * (round % 3), MinVisibility: float64(round%2) / 2}, Boxes: true, Keypoints: round%3 > 0, Text: true,
			},
		}
		if o.Transform.Mode == resample.None {
			o.Transform.Height, o.Transform.Width = 0, 0
		}
		c, err := catalog.New(ds, o)
		testkit.Must(t, err)
		has := c.Options.Extent()
		for batch := range c.Plan.Batches(1, 2) {
			k := engine.Key{Shard: 1, Epoch: 2, Batch: batch}
			d := c.Describe(k)
			for i := range d.Samples {
				switch r.IntN(3) {
				case 0:
					d.Samples[i].ID, d.Samples[i].Status = r.Int64N(n), catalog.StatusReplaced
				case 1:
					d.Samples[i].Label, d.Samples[i].Status = -1, catalog.StatusZeroed
				}
			}
			for _, f := range has.Forms() {
				data, err := RenderSmall(c, d, f)
				if want := c.Size(k, f); err != nil || int64(len(data)) != want {
					t.Fatalf("round %d, %s.%s: %d bytes, not %d: %v", round, k, f, len(data), want, err)
				}
			}
			rows, err := c.Options.Targets.RowsOf(d)
			testkit.Must(t, err)
			for i, s := range d.Samples {
				used := 0
				for row := rows.Offsets[i]; row < rows.Offsets[i+1]; row++ {
					if rows.Labels[row] >= 0 {
						used++
						if rows.IDs[row]/100 != s.ID {
							t.Fatalf("round %d, %s: slot %d shows sample %d, and has a box of %d", round, k, i, s.ID, rows.IDs[row]/100)
						}
					} else if rows.Boxes[row] != [4]float32{} || rows.IDs[row] != 0 || rows.Flags[row] != 0 {
						t.Fatalf("round %d, %s: a row of slot %d that is not used has something", round, k, i)
					}
				}
				if has.Max > 0 && int(rows.Counts[i]) != used || s.Status == catalog.StatusZeroed && used > 0 || has.Max == 0 && s.Status == catalog.StatusReplaced && used > 0 {
					slots, _ := c.Slots(k)
					if s.ID != slots[i].ID { // a sample may replace itself
						t.Fatalf("round %d, %s: %d rows of slot %d are used, which is %s", round, k, used, i, s.Status)
					}
				}
			}
		}
	}
}

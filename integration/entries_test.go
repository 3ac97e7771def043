package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"path/filepath"
	"slices"
	"testing"
)

// entryCounts is the part of stats.json about entry points.
type entryCounts struct {
	JPEGs struct {
		Baseline int
		Entries  struct{ Used, Made, None, Wrong int } `json:"entry_points"`
	}
}

// TestEntryPointsSameBytes: random crops are the same bytes without entry points, while they are
// made, when they were made by an earlier mount or by index, and when reads are verified.
func TestEntryPointsSameBytes(t *testing.T) {
	skipWithoutFUSE(t)
	const n, height, width = 20, 200, 280
	dataset := filepath.Join(scratch(t), "jpegs")
	for i := range n {
		img := image.NewRGBA(image.Rect(0, 0, width, height))
		for y := range height {
			for x := range width {
				img.SetRGBA(x, y, color.RGBA{byte(3*x + 5*i), byte(7*y - x), byte(x ^ y), 255})
			}
		}
		var out bytes.Buffer
		if err := jpeg.Encode(&out, img, &jpeg.Options{Quality: 90 - i}); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dataset, fmt.Sprintf("%02d.jpg", i)), out.Bytes())
	}
	indexed := func(rule string) func() {
		return func() {
			o := execute(t, "index", "--json", "--entry-points", rule, dataset).done(t)
			var s struct {
				Entries struct{ Have, None, Other int } `json:"entry_points"`
			}
			if err := json.Unmarshal([]byte(o.out), &s); err != nil || s.Entries.Have != n {
				t.Errorf("%v: %s", err, o.out)
			}
		}
	}
	var want []digest
	for _, step := range []struct {
		what       string
		before     func()
		flags      []string
		used, made bool
	}{
		{"off", nil, []string{"--entry-points", "off"}, false, false},
		{"made while reading", nil, nil, true, true},
		{"of the mount before", nil, nil, true, false},
		{"verified", nil, []string{"--verify-reads", "--cache-size", "0"}, true, false},
		{"there, but off", nil, []string{"--entry-points", "off"}, false, false},
		{"by index", indexed("7"), nil, true, false},
		{"the same rule", nil, []string{"--entry-points", "7"}, true, false},
		{"another rule", nil, []string{"--entry-points", "rows"}, true, true},
		{"by index, of the mount before", indexed("rows"), nil, true, false},
	} {
		if step.before != nil {
			step.before()
		}
		m := mountBatchfs(t, dataset, slices.Concat([]string{"--batch-size", "5", "--shuffle", "--resize", "random-resized-crop", "--size", "120x160"}, step.flags)...)
		got := m.sums(t, 1, 3)
		var stats entryCounts
		m.document(t, ".batchfs/stats.json", &stats)
		if stats.JPEGs.Baseline == 0 {
			t.Skip("the decoder of this build and processor makes no entry points")
		}
		if want == nil {
			want = got
		} else if !slices.Equal(got, want) {
			t.Errorf("%s: other bytes", step.what)
		}
		e := stats.JPEGs.Entries
		if (e.Used > 0) != step.used || (e.Made > 0) != step.made || e.None+e.Wrong > 0 {
			t.Errorf("%s: %+v", step.what, e)
		}
		m.finish(t)
	}
}

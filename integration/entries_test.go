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
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// jpegs makes a dataset of n baseline JPEGs of one size.
func jpegs(t testing.TB, n, height, width int) string {
	t.Helper()
	dir := filepath.Join(scratch(t), "jpegs")
	for i := range n {
		img := image.NewRGBA(image.Rect(0, 0, width, height))
		for y := range height {
			for x := range width {
				img.SetRGBA(x, y, color.RGBA{byte(3*x + 5*i), byte(7*y - x), byte(x ^ y), 255})
			}
		}
		var out bytes.Buffer
		check(t, jpeg.Encode(&out, img, &jpeg.Options{Quality: 90 - i%30}))
		writeFile(t, filepath.Join(dir, fmt.Sprintf("%03d.jpg", i)), out.Bytes())
	}
	return dir
}

// TestEntryPointsSameBytes: random crops have the same bytes without entry points, while these are
// made, with those of an earlier mount or of index, and when reads are verified.
func TestEntryPointsSameBytes(t *testing.T) {
	const n = 20
	dataset := jpegs(t, n, 200, 280)
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
		{"of the mount before, verified", nil, []string{"--verify-reads", "all", "--cache-size", "0"}, true, false},
		{"by index", indexed("7"), nil, true, false},
		{"another rule", nil, []string{"--entry-points", "rows"}, true, true},
	} {
		if step.before != nil {
			step.before()
		}
		m := mountBatchfs(t, dataset, slices.Concat([]string{"--cache-form", "encoded", "--batch-size", "5", "--shuffle", "--resize", "random-resized-crop", "--size", "120x160"}, step.flags)...)
		got := m.sums(t, 1, 3)
		stats := m.stats(t)
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

// TestEntryPointsOnAFullDisk: index fails with the reason. A mount says so once, and makes the same
// bytes as without entry points.
func TestEntryPointsOnAFullDisk(t *testing.T) {
	user := root(t)
	skipWithoutFUSE(t)
	dataset := jpegs(t, 200, 128, 128)
	user.home = scratch(t)
	if err := unix.Mount("tmpfs", user.home, "tmpfs", 0, "size=64k,mode=755"); err != nil {
		t.Skip("SKIPPED: tmpfs cannot be mounted: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(user.home, 0); err != nil {
			t.Error(err)
		}
	})
	crops := []string{"--batch-size", "20", "--resize", "random-resized-crop", "--size", "100x100"}
	off := mountAs(t, user, dataset, append(crops, "--entry-points", "off")...)
	want := off.sums(t, 1, 2)
	if off.stats(t).JPEGs.Baseline == 0 {
		t.Skip("the decoder of this build and processor makes no entry points")
	}
	off.finish(t)
	executeAs(t, user.daemon([]string{suite.binary, "index", "--entry-points", "1", dataset})).failed(t, "not all entry points could be stored", "no space left", "the index is kept")
	executeAs(t, user.daemon([]string{suite.binary, "index", "--json", dataset})).done(t)
	m := mountAs(t, user, dataset, append(crops, "--entry-points", "1")...)
	if !slices.Equal(m.sums(t, 1, 2), want) {
		t.Error("other bytes")
	}
	m.finish(t)
	if log := m.logged(); strings.Count(log, "no more entry points are stored") != 1 {
		t.Errorf("the log:\n%s", log)
	}
}

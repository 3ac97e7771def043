package convert

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfs/batchfs/dataset"
)

// TestPartsMakeTheSame: parts that are made at the same time, or are killed and made again, end with what one
// run makes, and so does a chosen sample that turns out to be corrupt, whose place is taken in another part.
func TestPartsMakeTheSame(t *testing.T) {
	killCases(t, func(t *testing.T, path, dir string, o Options) {
		want := uninterrupted(t, path, filepath.Join(dir, "whole"), o)
		out := filepath.Join(dir, "out")
		const n = 3
		part := func(k int) Options {
			o := o
			o.Part = dataset.Share{K: k, N: n}
			return o
		}
		merge := o
		merge.Merge = true
		refused := func(parts int) {
			t.Helper()
			_, err := Write(context.Background(), open(t, path), out, merge)
			if e, ok := errors.AsType[*dataset.PartsError](err); !ok || len(e.Parts) != parts {
				t.Fatalf("want %d parts to be missing: %v", parts, err)
			}
		}
		refused(0)
		if _, err := os.Lstat(out + stagingSuffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("an unfinished tree of nothing is there: %v", err)
		}
		for step := 1; runChild(t, path, out, part(1), step); step += 5 {
		}
		refused(n - 1)
		var group sync.WaitGroup
		for k := range n {
			ds := open(t, path)
			group.Go(func() {
				r, err := Write(context.Background(), ds, out, part(k))
				made := r.Converted + r.Linked + r.Copied + r.Cloned + r.Symlinked
				if k == 0 && o.Manifest != "" && err == nil && made == 0 {
					return // its one file is also in part 2, which came first
				}
				if err != nil || (made == 0) != (k == 1) {
					t.Errorf("part %d made %d files, %v", k, made, err)
				}
			})
		}
		group.Wait()
		r := again(t, path, out, merge, want, "in parts")
		if made := r.Converted + r.Linked; made > 2 {
			t.Errorf("joining the parts made %d files", made)
		}
		if r := again(t, path, out, merge, want, "joined again"); !r.Finished {
			t.Errorf("%+v", r)
		}
	})
}

// TestPartsAndOthers: a run of everything and one of a part do not work in the same tree at the same time, and
// parts with other settings do not either.
func TestPartsAndOthers(t *testing.T) {
	path, out := small(t), filepath.Join(t.TempDir(), "out")
	part := Options{Ratio: 0.5, Part: dataset.Share{K: 0, N: 2}}
	whole, other := Options{Ratio: 0.5}, Options{Ratio: 0.25, Part: dataset.Share{K: 1, N: 2}}
	during := func(o Options, wrong ...Options) (errs []error) {
		o.Announce = func(Plan) {
			for _, w := range wrong {
				_, err := Write(context.Background(), open(t, path), out, w)
				errs = append(errs, err)
			}
		}
		if _, err := Write(context.Background(), open(t, path), out, o); err != nil {
			t.Fatal(err)
		}
		return errs
	}
	if errs := during(part, whole, other); !errors.Is(errs[0], ErrBusy) || !errors.Is(errs[1], ErrSettings) {
		t.Error(errs)
	}
	during(whole)
	want, _ := convert(t, path, whole)
	if diff := cmp.Diff(contents(t, want), contents(t, out)); diff != "" {
		t.Error(diff)
	}
}

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

	"github.com/batchfs/batchfs/internal/dataset"
)

// TestPartsMakeTheSame: parts that are made at the same time, or are killed and made again, give
// the same result as one run. So does a chosen sample that turns out to be corrupt, and is replaced
// in another part.
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
				first, end := part(k).Part.Span(ds.Len())
				if n := made(r); err != nil || (n == 0) != (k == 1) || n+r.Reused != end-first {
					t.Errorf("part %d made %d files and found %d of %d, %v", k, n, r.Reused, end-first, err)
				}
			})
		}
		group.Wait()
		r := again(t, path, out, merge, want, "in parts")
		if n := r.Converted + r.Linked; n > 2 {
			t.Errorf("joining the parts made %d files", n)
		}
		if r := again(t, path, out, merge, want, "joined again"); !r.Finished {
			t.Errorf("%+v", r)
		}
	})
}

// made is how many files a run made.
func made(r Report) int { return r.Converted + r.Linked + r.Copied + r.Cloned + r.Symlinked }

// TestPartsShareFile: a file that a manifest lists in two parts is made by whichever comes to it
// first. The other part uses it, or makes it too if it looked for the file before. To cover all of
// this, one part runs within each step of the other.
func TestPartsShareFile(t *testing.T) {
	path := filepath.Join(filepath.Dir(small(t)), "list.csv")
	write(t, path, []byte("path,label\nsmall/a/1.png,x\nsmall/a/1.jpg,y\nsmall/a/1.png,y\n"))
	for _, ratio := range []float64{0, 1} { // kept, raw
		o := Options{Shares: Shares{Raw: ratio}, Workers: 1, Manifest: path}
		whole, _ := convert(t, path, o)
		want, seen := contents(t, whole), map[[2]int]bool{}
		for at, more := 1, true; more; at++ {
			out := filepath.Join(t.TempDir(), "out")
			part := func(k int, step func()) (r Report) {
				o := o
				o.Part, o.step = dataset.Share{K: k, N: 3}, step
				r, err := Write(context.Background(), open(t, path), out, o)
				if n := made(r); err != nil || n+r.Reused != 1 {
					t.Fatalf("at step %d: part %d made %d files and found %d, %v", at, k, n, r.Reused, err)
				}
				return r
			}
			part(1, nil) // the tree is there
			var first, second Report
			steps := 0
			first = part(0, func() {
				if steps++; steps == at {
					second = part(2, nil)
				}
			})
			if more = steps >= at; !more {
				second = part(2, nil)
			}
			seen[[2]int{made(first), made(second)}] = true
			merge := o
			merge.Merge = true
			if r := again(t, path, out, merge, want, "joined"); r.Reused != 3 {
				t.Errorf("at step %d: %+v", at, r)
			}
		}
		if diff := cmp.Diff(map[[2]int]bool{{0, 1}: true, {1, 0}: true, {1, 1}: true}, seen); diff != "" {
			t.Errorf("ratio %v: files that each part made: %s", ratio, diff)
		}
	}
}

// TestPartsAndOthers: a run of everything excludes all other runs, even of a part, from the same
// tree, and parts with different settings exclude each other.
func TestPartsAndOthers(t *testing.T) {
	path, out := small(t), filepath.Join(t.TempDir(), "out")
	part := Options{Shares: Shares{Raw: 0.5}, Part: dataset.Share{K: 0, N: 2}}
	whole, other := Options{Shares: Shares{Raw: 0.5}}, Options{Shares: Shares{Raw: 0.25}, Part: dataset.Share{K: 1, N: 2}}
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
	if errs := during(whole, whole); !errors.Is(errs[0], ErrBusy) {
		t.Error(errs)
	}
	want, _ := convert(t, path, whole)
	if diff := cmp.Diff(contents(t, want), contents(t, out)); diff != "" {
		t.Error(diff)
	}
}

package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/hangfs"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/google/go-cmp/cmp"
)

// runChild converts in another process, which dies at a step; false: it finished first.
func runChild(t *testing.T, path, out string, o Options, step int) (died bool) {
	t.Helper()
	options, err := json.Marshal(childOptions{o.Shares, o.Format, o.Seed, o.Workers, o.Manifest, o.Part})
	testkit.Must(t, err)
	_, err = testkit.Output(exec.Command(os.Args[0], childArgument, path, out, string(options), fmt.Sprint(step)), time.Minute)
	var exit *exec.ExitError
	if died = errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL; err != nil && !died {
		t.Fatal(err)
	}
	return died
}

// killCases are the ways to create files: as links and, on another file system, as copies.
func killCases(t *testing.T, test func(t *testing.T, path, dir string, o Options)) {
	t.Run("links", func(t *testing.T) {
		test(t, small(t), t.TempDir(), Options{Shares: Shares{Raw: 0.6}, Format: PPM, Seed: 1, Workers: 2})
	})
	t.Run("copies", func(t *testing.T) {
		test(t, small(t), otherFileSystem(t), Options{Shares: Shares{Raw: 0.4}, Seed: 1, Workers: 1})
	})
	t.Run("packed", func(t *testing.T) {
		test(t, small(t), t.TempDir(), Options{Shares: Shares{Raw: 0.2, Packed: 0.5}, Seed: 1, Workers: 2})
	})
	t.Run("manifest", func(t *testing.T) {
		path := filepath.Join(filepath.Dir(small(t)), "list.csv")
		// a/1.png is in two of three parts, of which one keeps it and one makes it raw. a/1.jpg,
		// which its part keeps, takes the place of a/3.png, which another finds corrupt.
		write(t, path, []byte("path,label\nsmall/a/1.png,x\nsmall/b/0.png,y\nsmall/a/1.jpg,x\nsmall/b/deep/x.png,y\nsmall/a/1.png,y\nsmall/a/3.png,x\n"))
		test(t, path, t.TempDir(), Options{Shares: Shares{Raw: 0.5}, Seed: 4, Workers: 2, Manifest: path})
	})
}

// TestKilledAnywhere kills a run at each of its steps, once. The output is then missing or
// complete, and the next run finishes it.
func TestKilledAnywhere(t *testing.T) {
	killCases(t, func(t *testing.T, path, dir string, o Options) {
		want := uninterrupted(t, path, filepath.Join(dir, "whole"), o)
		stride := 1
		if o.Manifest != "" {
			stride = 3 // most of it is covered by the other cases
		}
		for step := 1; ; step += stride {
			out := filepath.Join(dir, fmt.Sprint("step-", step))
			died := runChild(t, path, out, o, step)
			if _, err := os.Stat(out); err == nil {
				if diff := cmp.Diff(want, contents(t, out)); diff != "" {
					t.Fatalf("died at step %d, but left a result: %s", step, diff)
				}
			} else if !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			again(t, path, out, o, want, fmt.Sprintf("after dying at step %d", step))
			if !died {
				if step < 20 {
					t.Errorf("the run takes only %d steps", step)
				}
				return
			}
		}
	})
}

// uninterrupted returns the result of an uninterrupted run. It requires that one chosen sample
// is corrupt, so that there is a second round.
func uninterrupted(t *testing.T, path, out string, o Options) map[string]string {
	t.Helper()
	r, err := Write(context.Background(), open(t, path), out, o)
	testkit.Must(t, err)
	if !slices.ContainsFunc(r.Unreadable, func(u dataset.BadFile) bool { return strings.HasSuffix(u.Path, "a/3.png") }) {
		t.Fatalf("a/3.png was not chosen: %+v", r)
	}
	opened, manifest := out, ""
	if o.Manifest != "" {
		opened, manifest = r.Manifest, filepath.Base(r.Manifest)
	}
	ds := open(t, opened)
	if ds.Len() != r.Samples {
		t.Errorf("the result has %d samples, want %d", ds.Len(), r.Samples)
	}
	onlySamples(t, out, ds, manifest)
	return contents(t, out)
}

// again runs to the end and compares the result.
func again(t *testing.T, path, out string, o Options, want map[string]string, when string) Report {
	t.Helper()
	r, err := Write(context.Background(), open(t, path), out, o)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if diff := cmp.Diff(want, contents(t, out)); diff != "" {
		t.Fatalf("%s: %s", when, diff)
	}
	if _, err := os.Lstat(out + stagingSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s: the unfinished tree is still there: %v", when, err)
	}
	return r
}

// TestStorageThatHangs: Write returns when its context is done, and another Write continues
// when the storage responds again.
func TestStorageThatHangs(t *testing.T) {
	files := map[string][]byte{"a/1.png": pngOf(t, 8, 9, false), "a/2.png": pngOf(t, 9, 8, false), "b/3.png": pngOf(t, 5, 5, false)}
	f := hangfs.Mount(t, t.TempDir(), files)
	ds := open(t, f.Dir)
	out := filepath.Join(t.TempDir(), "out")
	f.Hang("read")
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan error, 1)
	go func() {
		_, err := Write(ctx, ds, out, Options{Shares: Shares{Raw: 1}})
		written <- err
	}()
	<-f.Hung
	cancel()
	select {
	case err := <-written:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Write waits for the storage")
	}
	f.Release()
	for end := time.Now().Add(time.Minute); ; {
		r, err := Write(t.Context(), ds, out, Options{Shares: Shares{Raw: 1}})
		if errors.Is(err, ErrBusy) && time.Now().Before(end) { // the abandoned call is just ending
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil || r.Raw != 3 {
			t.Errorf("%+v, %v", r, err)
		}
		return
	}
}

package convert

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/testkit"
)

// interrupted leaves an unfinished run: it is cancelled after some samples.
func interrupted(t *testing.T, path, out string, o Options, after int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o.Workers = 1
	o.Progress = func(done, _ int64) {
		if done == after {
			cancel()
		}
	}
	if _, err := Write(ctx, open(t, path), out, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("an interrupted run ends with %v", err)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("an interrupted run leaves a result: %v", err)
	}
}

// TestResume: a run reuses what an interrupted run made, removes other files, and remakes
// incomplete ones.
func TestResume(t *testing.T) {
	path, dir := small(t), t.TempDir()
	o := Options{Shares: Shares{Raw: 0.6}, Format: PPM, Seed: 1}
	want := uninterrupted(t, path, filepath.Join(dir, "whole"), o)
	out := filepath.Join(dir, "out")
	interrupted(t, path, out, o, 9)
	stage := out + stagingSuffix
	whole := 0
	var raws []string
	for name, text := range contents(t, stage) {
		if text[0] != 'd' && want[name] == text {
			whole++
		}
		if ext := filepath.Ext(name); ext == ".ppm" || ext == ".pgm" {
			raws = append(raws, filepath.Join(stage, name))
		}
	}
	if len(raws) < 2 || whole < 6 {
		t.Fatalf("too little was done to test with: %v", raws)
	}
	cutOff(t, raws[0])
	write(t, strings.TrimSuffix(raws[1], filepath.Ext(raws[1])), []byte("of a sample that was spoilt for a moment"))
	write(t, filepath.Join(stage, scratchName, "0"), []byte("half a fi"))
	testkit.Must(t, os.Chtimes(raws[1], time.Time{}, time.Now()))
	r := again(t, path, out, o, want, "after an interruption")
	if !r.Resumed || r.Reused < whole-3 { // two files that are no longer complete, and the marker
		t.Errorf("%d files were whole, but reported: %+v", whole, r)
	}
	if r := again(t, path, out, o, want, "when all is done"); !r.Finished || r.Converted+r.Linked+r.Reused != 0 || r.Raw != 6 {
		t.Errorf("reported %+v", r)
	}
}

// TestResumeKeepsOthers: a raw sample, or one that cannot become raw, has no copy whose name could
// conflict, and a continued run keeps a sample that is named like a copy.
func TestResumeKeepsOthers(t *testing.T) {
	path, out := filepath.Join(t.TempDir(), "d"), filepath.Join(t.TempDir(), "out")
	for _, name := range []string{"a.bmp", "a.bmp.bmp", "c.bmp"} {
		write(t, filepath.Join(path, name), bmpOf(t, 3, 2))
	}
	write(t, filepath.Join(path, "b.jpg"), []byte("no image"))
	write(t, filepath.Join(path, "b.jpg.bmp"), bmpOf(t, 2, 3))
	interrupted(t, path, out, Options{Shares: Shares{Raw: 1}}, 4)
	if r, err := Write(context.Background(), open(t, path), out, Options{Shares: Shares{Raw: 1}, Workers: 1}); err != nil || r.Reused != 4 || r.Linked != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// cutOff makes a file one byte shorter without changing its modification time, as a power cut
// may.
func cutOff(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	testkit.Must(t, err)
	testkit.Must(t, os.Truncate(path, info.Size()-1))
	testkit.Must(t, os.Chtimes(path, time.Time{}, info.ModTime()))
}

// TestOtherRunRefused: a run with other settings or another dataset neither continues an
// unfinished run nor touches it, and says what differs.
func TestOtherRunRefused(t *testing.T) {
	path, out := small(t), filepath.Join(t.TempDir(), "out")
	o := Options{Shares: Shares{Raw: 0.6}, Seed: 1}
	interrupted(t, path, out, o, 4)
	before := contents(t, filepath.Dir(out))
	refused := func(o Options, want error, words string) {
		t.Helper()
		_, err := Write(context.Background(), open(t, path), out, o)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: %v", o, err)
		}
		if diff := cmp.Diff(before, contents(t, filepath.Dir(out))); diff != "" {
			t.Errorf("%+v was refused, but: %s", o, diff)
		}
	}
	refused(Options{Shares: Shares{Raw: 0.5}, Seed: 1}, ErrSettings, "raw ratio 0.6, now 0.5")
	refused(Options{Shares: Shares{Raw: 0.6}, Seed: 2}, ErrSettings, "seed 1, now 2")
	refused(Options{Shares: Shares{Raw: 0.6}, Seed: 1, Format: PPM}, ErrSettings, "raw format bmp, now ppm")
	refused(Options{Shares: Shares{Raw: 0.6}, Seed: 1, Resize: 1, Height: 4, Width: 5}, ErrSettings, "raw resize none, now stretch; raw size none, now 4x5")
	refused(Options{Shares: Shares{Raw: 0.6}, Seed: 1, IgnoreOrientation: true}, ErrSettings, "ignore orientation")
	refused(Options{Shares: Shares{Raw: 0.6}, Seed: 1, MaxPixels: 99}, ErrSettings, "max pixels")
	if _, err := Write(t.Context(), open(t, out+stagingSuffix), out, o); !errors.Is(err, ErrInside) {
		t.Errorf("an unfinished tree converted into its own output: %v", err)
	}
	testkit.Must(t, os.Chtimes(filepath.Join(path, "b/0.png"), time.Time{}, time.Now().Add(-time.Hour)))
	refused(o, ErrSource, "")
}

// TestFinishedIsNotOverwritten: a result made with other settings is treated like any other
// directory that is not empty.
func TestFinishedIsNotOverwritten(t *testing.T) {
	path := small(t)
	out, _ := convert(t, path, Options{Shares: Shares{Raw: 0.5}})
	before := contents(t, filepath.Dir(out))
	refused := func(raw float64, why string) {
		t.Helper()
		_, err := Write(context.Background(), open(t, path), out, Options{Shares: Shares{Raw: raw}})
		if want := "convert: " + out + ": directory is not empty: it was begun " + why; !errors.Is(err, ErrNotEmpty) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	refused(0.6, "with other settings: raw ratio 0.5, now 0.6")
	testkit.Must(t, os.Chtimes(filepath.Join(path, "b/deep/x.png"), time.Time{}, time.Unix(1, 0)))
	refused(0.5, "before the dataset changed")
	if diff := cmp.Diff(before, contents(t, filepath.Dir(out))); diff != "" {
		t.Error(diff)
	}
}

// TestAuto: the share is determined once, before anything else; a run that continues an
// unfinished one uses the recorded share.
func TestAuto(t *testing.T) {
	path, dir := small(t), t.TempDir()
	asked := 0
	auto := func(raw float64, err error) Options {
		return Options{Shares: Shares{Raw: 7}, Seed: 1, Auto: func(context.Context) (Shares, error) {
			asked++
			return Shares{Raw: raw, Packed: 0.2}, err
		}}
	}
	want := uninterrupted(t, path, filepath.Join(dir, "whole"), Options{Shares: Shares{Raw: 0.6, Packed: 0.2}, Seed: 1})
	out := filepath.Join(dir, "out")
	broken := errors.New("no profile")
	if _, err := Write(context.Background(), open(t, path), out, auto(0, broken)); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := Write(context.Background(), open(t, path), out, auto(1.5, nil)); !refused(err) {
		t.Error(err)
	}
	if _, err := os.Stat(out + stagingSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is left of a run that could not begin: %v", err)
	}
	interrupted(t, path, out, auto(0.6, nil), 5)
	asked = 0
	r := again(t, path, out, auto(0.1, nil), want, "continued")
	if asked != 0 || r.Shares != (Shares{0.6, 0.2}) {
		t.Errorf("asked %d times, %+v", asked, r.Shares)
	}
}

func TestPlacesRefused(t *testing.T) {
	path, dir := small(t), t.TempDir()
	ds := open(t, path)
	write(t, filepath.Join(dir, "full/note"), nil)
	write(t, filepath.Join(dir, "file"), nil)
	write(t, filepath.Join(dir, "taken"+stagingSuffix, "note"), nil)
	write(t, filepath.Join(dir, "damaged"+stagingSuffix, markerName), []byte("{"))
	write(t, filepath.Join(dir, "damaged"+stagingSuffix, "note"), nil)
	write(t, filepath.Join(dir, "flat"+stagingSuffix), nil)
	testkit.Must(t, os.Symlink(path, filepath.Join(dir, "link")))
	before := contents(t, dir)
	for _, name := range []string{"pipe", "unfinished" + stagingSuffix} { // contents would wait for them
		testkit.Must(t, errors.Join(os.Mkdir(filepath.Join(dir, name), 0o755), unix.Mkfifo(filepath.Join(dir, name, markerName), 0o600)))
	}
	for out, want := range map[string]error{
		filepath.Join(dir, "full"):       ErrNotEmpty,
		filepath.Join(dir, "pipe"):       ErrNotEmpty,
		filepath.Join(dir, "unfinished"): ErrForeign,
		filepath.Join(dir, "file"):       nil,
		filepath.Join(dir, "taken"):      ErrForeign,
		filepath.Join(dir, "damaged"):    ErrForeign,
		filepath.Join(dir, "flat"):       ErrForeign,
		path:                             ErrInside,
		filepath.Join(path, "x/y"):       ErrInside,
		filepath.Join(dir, "link/out"):   ErrInside,
		"/proc":                          nil,
		"/dev/shm":                       nil,
	} {
		if _, err := Write(context.Background(), ds, out, Options{Shares: Shares{Raw: 0.5}}); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", out, err, want)
		}
	}
	for _, name := range []string{"pipe", "unfinished" + stagingSuffix} {
		testkit.Must(t, os.RemoveAll(filepath.Join(dir, name)))
	}
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestEmptyPlacesTaken(t *testing.T) {
	path, dir := small(t), t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	testkit.Must(t, os.Mkdir(real, 0o755))
	testkit.Must(t, os.Symlink(real, link))
	// As left by a run that died before or while it wrote its marker.
	write(t, filepath.Join(real+stagingSuffix, markerName), []byte(`{"version":2,`))
	if r, err := Write(context.Background(), open(t, path), link, Options{Shares: Shares{Raw: 0.5}}); err != nil || r.Out != real || r.Resumed {
		t.Errorf("through a link: %+v, %v", r, err)
	}
	deep := filepath.Join(dir, "not/yet/there")
	if r, err := Write(context.Background(), open(t, path), deep, Options{Shares: Shares{Raw: 0.5}}); err != nil || r.Out != deep {
		t.Errorf("where nothing is: %+v, %v", r, err)
	}
}

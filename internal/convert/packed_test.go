package convert

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/shard"
)

// packsJPEGs says whether this build packs JPEGs.
var packsJPEGs = slices.Contains(decode.Kernels(), decode.Portable)

// TestPacked: for every kind of file, a packed sample keeps its number, its label and its pixels,
// and unpacks to the original. A sample without a packed form stays as it is, and is counted.
func TestPacked(t *testing.T) {
	path := mixed(t)
	was := open(t, path)
	n := was.Len()
	already, _ := formCount(was, shard.Raw)
	for _, shares := range []Shares{{Packed: 0.4}, {Raw: 0.3, Packed: 0.3}, {Raw: 0.5, Packed: 0.5}, {Packed: 1}} {
		out, r := convert(t, path, Options{Shares: shares, Seed: 1})
		is := open(t, out)
		sameSamples(t, was, is)
		onlySamples(t, out, is, "")
		isPacked, _ := formCount(is, shard.Packed)
		isRaw, _ := formCount(is, shard.Raw)
		if r.Packed != isPacked || r.Raw != isRaw || len(r.Unreadable) > 0 || r.Converted+r.Linked != n {
			t.Errorf("%+v: %d raw, %d packed, reported %+v", shares, isRaw, isPacked, r)
		}
		if wantRaw := int(countOf(shares.Raw, int64(n))); wantRaw > 0 && isRaw != max(wantRaw, already) {
			t.Errorf("%+v: %d raw, want %d", shares, isRaw, wantRaw)
		}
		want := int(countOf(shares.Packed, int64(n)))
		if shares.Raw+shares.Packed < 1 && isPacked != want && packsJPEGs || isPacked > want {
			t.Errorf("%+v: %d packed, want %d", shares, isPacked, want)
		}
		if shares.Packed == 1 && isPacked+r.Unpackable != n {
			t.Errorf("%d of %d are packed, and %d cannot be", isPacked, n, r.Unpackable)
		}
		// Samples that are already packed or raw count.
		if again, r := convert(t, out, Options{Shares: shares, Seed: 2}); r.Packed != isPacked || r.Raw != isRaw || r.Converted > 0 {
			t.Errorf("%s from %s with the same shares: %+v", again, out, r)
		}
		// It can become raw.
		back, r := convert(t, out, Options{Shares: Shares{Raw: 1}, Format: PPM})
		if r.Raw != n || r.AlreadyRaw != isRaw {
			t.Errorf("made raw: %+v", r)
		}
		for i, all := 0, open(t, back); i < n; i++ {
			_, want := readSample(t, was, i)
			if _, got := readSample(t, all, i); string(got.rgb) != string(want.rgb) {
				t.Errorf("%s has other pixels than %s", all.Path(i), was.Path(i))
			}
		}
	}
}

// TestPackedEvenly: each class has its part of the raw and of the packed samples.
func TestPackedEvenly(t *testing.T) {
	if !packsJPEGs {
		t.Skip("this build packs no JPEGs")
	}
	path := filepath.Join(t.TempDir(), "photos")
	testkit.Must(t, gen.Write(t.Context(), gen.Options{Dir: path, Images: 40, Kind: gen.Photo, Classes: 4, Seed: 3}))
	out, r := convert(t, path, Options{Shares: Shares{Raw: 0.2, Packed: 0.5}, Seed: 1})
	is := open(t, out)
	_, raws := formCount(is, shard.Raw)
	_, packs := formCount(is, shard.Packed)
	for class := range 4 {
		if raws[class] != 2 || packs[class] != 5 {
			t.Errorf("class %d has %d raw and %d packed: %+v", class, raws[class], packs[class], r)
		}
	}
}

// TestPackedResume: a packed file that is not complete is made again.
func TestPackedResume(t *testing.T) {
	path, dir := small(t), t.TempDir()
	o := Options{Shares: Shares{Packed: 0.9}, Seed: 1}
	want := uninterrupted(t, path, filepath.Join(dir, "whole"), o)
	out := filepath.Join(dir, "out")
	interrupted(t, path, out, o, 7)
	cut := 0
	for name := range contents(t, out+stagingSuffix) {
		if strings.HasSuffix(name, ".bfs") {
			if cut++; cut%2 == 1 {
				cutOff(t, filepath.Join(out+stagingSuffix, name))
			}
		}
	}
	if r := again(t, path, out, o, want, "after an interruption"); cut < 3 || r.Converted < (cut+1)/2 || r.Reused < cut/2 {
		t.Errorf("%d files were there, half of them cut off: %+v", cut, r)
	}
}

// TestPackedTaken: the name of a packed copy is refused like that of a raw one, and only where
// something is packed.
func TestPackedTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d")
	write(t, filepath.Join(path, "a.png"), pngOf(t, 3, 2, false))
	write(t, filepath.Join(path, "a.png.bg.png"), pngOf(t, 3, 2, false))
	for shares, want := range map[Shares]string{{Raw: 0.5}: "a.png.bmp would come after", {Packed: 0.5}: ""} {
		_, err := Write(t.Context(), open(t, path), filepath.Join(t.TempDir(), "out"), Options{Shares: shares})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", shares, err)
		}
	}
	write(t, filepath.Join(path, "a.png.bfs"), []byte("no image"))
	_, err := Write(t.Context(), open(t, path), filepath.Join(t.TempDir(), "out"), Options{Shares: Shares{Packed: 0.5}})
	if err == nil || !strings.Contains(err.Error(), "a.png.bfs is another sample") {
		t.Error(err)
	}
}

func TestSharesRefused(t *testing.T) {
	ds, dir := open(t, small(t)), t.TempDir()
	for shares, setting := range map[Shares]string{
		{Packed: 1.1}: "packed ratio", {Packed: -0.1}: "packed ratio", {Raw: 0.7, Packed: 0.4}: "packed ratio",
		{Raw: -0.1}: "raw ratio", {Raw: 1.1}: "raw ratio", {Raw: math.NaN()}: "raw ratio",
	} {
		if _, err := Write(t.Context(), ds, filepath.Join(dir, "out"), Options{Shares: shares}); !refused(err) || !strings.Contains(err.Error(), setting) {
			t.Errorf("%+v: %v", shares, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := Write(t.Context(), ds, filepath.Join(t.TempDir(), "out"), Options{Shares: Shares{Raw: 0.58, Packed: 0.42}}); err != nil {
		t.Error(err)
	}
}

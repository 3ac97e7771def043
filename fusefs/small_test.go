package fusefs

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// TestPathLength: pathLength is exact, because the sizes of documents follow from it.
func TestPathLength(t *testing.T) {
	for _, s := range []string{"", "a/b c~.jpg", `a"b`, `a\b`, "a<b", "a>b", "a&b", "a\tb", "a\x7fb", "größe", "a\xffb", "\u2028"} {
		text, err := json.Marshal(struct {
			Path  string `json:"path"`
			Bytes string `json:"path_bytes,omitempty"`
		}{s, dataset.PathBytes(s)})
		testkit.Must(t, err)
		if got, want := pathLength(s), len(text)-len(`{"path":}`); got != want {
			t.Errorf("%q is said to take %d bytes, and takes %d", s, got, want)
		}
	}
}

// TestLongReasonsFit: whatever is wrong with the files of a batch, its document is valid and as
// long as announced.
func TestLongReasonsFit(t *testing.T) {
	f := fakeFilesystem(t, newFake(), direct)
	key := engine.Key{Shard: 1, Epoch: 2, Batch: 3}
	for _, reason := range []string{"", "corrupt", strings.Repeat("long ", 40), strings.Repeat("é", 100), strings.Repeat("\xff\n\"<", 300), strings.Repeat("x", 157) + "éx"} {
		d := f.catalog.Describe(key)
		for i := range d.Samples {
			s := &d.Samples[i]
			s.Label, s.Height, s.Width, s.Status, s.Reason = math.MinInt64, math.MinInt32, math.MinInt32, catalog.StatusReplaced, reason
			s.Crop = [4]float64{-1.0 / 3e-100, -1.0 / 3e-100, -1.0 / 3e-100, -1.0 / 3e-100}
		}
		text, err := renderSmall(f.catalog, d, layout.JSON, f.longest)
		var doc batchDocument
		if err == nil {
			err = json.Unmarshal(text, &doc)
		}
		if err != nil || int64(len(text)) != f.batchSize(node{kind: batchFile, key: key, form: layout.JSON}) {
			t.Fatalf("%q: %d bytes: %v", reason, len(text), err)
		}
		whole := len(reason) <= reasonLength-2 && utf8.ValidString(reason)
		got, cut := strings.CutSuffix(doc.Samples[0].Reason, "...")
		if whole == cut || whole && got != reason || cut && len(reason) < reasonLength {
			t.Errorf("%q became %q", reason, doc.Samples[0].Reason)
		}
	}
}

// TestFailuresAreRemembered: the last error of a batch is an attribute of its files, in every form.
// Only so many batches are remembered, and no errors that the caller caused.
func TestFailuresAreRemembered(t *testing.T) {
	src := newFake()
	var failure error
	src.before = func(context.Context, engine.Key) error { return failure }
	f := fakeFilesystem(t, src, direct)
	const batch = "shard-1/epoch-0/batch-00002."
	get := func(form string) (fail Failure) {
		t.Helper()
		dest := make([]byte, 4096)
		header := &fuse.InHeader{NodeId: findPath(t, f, batch+form).NodeId}
		n, st := f.GetXAttr(nil, header, errorAttribute, dest)
		names := make([]byte, 200)
		all, _ := f.ListXAttr(nil, header, names)
		if st.Ok() != strings.Contains(string(names[:all]), errorAttribute+"\x00") {
			t.Errorf("%v, and listed are %q", st, names[:all])
		}
		if st.Ok() {
			if err := json.Unmarshal(dest[:n], &fail); err != nil || fail.Time.IsZero() {
				t.Fatalf("%s: %v", dest[:n], err)
			}
		}
		return fail
	}
	for _, c := range []struct {
		err          error
		errno, words string // of the error that is remembered then
	}{
		{nil, "", ""},
		{context.Canceled, "", ""},
		{engine.ErrClosed, "", ""},
		{fmt.Errorf("%w: a.jpg: rotten", engine.ErrBad), "EIO", "a.jpg: rotten"},
		{fmt.Errorf("%w: %s", engine.ErrNoMemory, strings.Repeat("é", 4000)), "ENOMEM", "éé..."},
		{engine.ErrTooBig, "EFBIG", "larger than a file"},
		{nil, "EFBIG", "larger than a file"},
	} {
		failure = c.err
		_, _ = openNode(f, findPath(t, f, batch+"npy").NodeId, unix.O_RDONLY)
		got := get("json")
		if got.Error != c.errno || !strings.Contains(got.Reason, c.words) || len(got.Reason) > failureLength || (got.Hint == "") != (got.Error == "" || got.Error == "EIO") {
			t.Errorf("after %v: %+v", c.err, got)
		}
	}
	for i := range maxFailures {
		f.failures.remember(engine.Key{Batch: 1000 + i}, engine.ErrBad, src.Remedy)
		f.failures.remember(engine.Key{Batch: 1000}, engine.ErrBad, src.Remedy)
	}
	if len(f.failures.byKey) != maxFailures || len(f.failures.keys) != maxFailures || f.failures.last(engine.Key{Batch: 1000}) == "" {
		t.Errorf("%d failures are remembered", len(f.failures.byKey))
	}
	f.failures.remember(engine.Key{}, engine.ErrBad, src.Remedy)
	if get("npy") != (Failure{}) {
		t.Error("the oldest one is remembered")
	}
}

// TestPathsThatAreNotUTF8: such paths stay distinguishable in documents, and the documents have the
// predicted sizes.
func TestPathsThatAreNotUTF8(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{strings.Repeat("\xfe", 200), strings.Repeat("\xff", 200), strings.Repeat("é", 100), "fine"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name+".ppm"), []byte("P6 1 1 255\n123"), 0o600))
	}
	ds, err := dataset.Open(t.Context(), dir, dataset.Options{Workers: 1, Prober: sample.Probe})
	testkit.Must(t, err)
	defer ds.Close()
	c, err := catalog.New(ds, catalog.Options{
		Config: shard.Config{Shards: 1, BatchSize: 4, PadLastBatch: true}, Epochs: 1, Decoding: decode.Options{MaxPixels: 1 << 20},
	})
	testkit.Must(t, err)
	doc, err := RenderSmall(c, c.Describe(engine.Key{}), layout.JSON)
	if want := batchDocumentSize(4, longestPath(ds)); err != nil || int64(len(doc)) != want {
		t.Fatalf("%d bytes of %d: %v", len(doc), want, err)
	}
	var batch batchDocument
	testkit.Must(t, json.Unmarshal(doc, &batch))
	for _, s := range batch.Samples {
		path, odd := s.Path, strings.Contains(s.Path, "\ufffd")
		if odd {
			bytes, err := base64.StdEncoding.DecodeString(s.Bytes)
			if err != nil {
				t.Error(err)
			}
			path = string(bytes)
		}
		if path != ds.Path(int(s.ID)) || odd != (s.Bytes != "") {
			t.Errorf("%q, %q instead of %q", s.Path, s.Bytes, ds.Path(int(s.ID)))
		}
	}
	text := string(errorLines([]engine.BadSample{{Path: "\xfe"}, {Path: "\xff"}, {Path: "fine"}}))
	for k, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if has := strings.Contains(line, `"path_bytes":"`+[]string{"/g==", "/w==", ""}[k]); has != (k < 2) {
			t.Errorf("errors.jsonl: %s", line)
		}
	}
}

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/layout"
	"golang.org/x/sys/unix"
)

// A spoilt dataset has 16 images in two classes. Each has one gray value, ten times its index. Some
// of the files are not images.
type spoilt struct {
	dir string
	bad map[int]string // index -> a word of the reason
}

const (
	spoiltCount  = 16
	spoiltHeight = 6
	spoiltWidth  = 8
	spoiltLarge  = 6 // this image is larger than the others
)

// size is that of a sample's image.
func (spoilt) size(id int) (h, w int) {
	if id == spoiltLarge {
		return spoiltHeight + 4, spoiltWidth + 4
	}
	return spoiltHeight, spoiltWidth
}

func (s spoilt) label(id int) int { return id / (spoiltCount / 2) }

func (s spoilt) name(id int) string {
	return fmt.Sprintf("%s/%02d.png", []string{"cats", "dogs"}[s.label(id)], id)
}

func (s spoilt) file(id int) string { return filepath.Join(s.dir, s.name(id)) }

// good is a sample's intact file.
func (s spoilt) good(id int) []byte {
	h, w := s.size(id)
	return pngFile(h, w, byte(10*id))
}

func spoiltImages(t testing.TB) spoilt {
	t.Helper()
	s := spoilt{filepath.Join(scratch(t), "images"), map[int]string{
		2: "unsupported", 5: "corrupt", 9: "corrupt", 11: "empty", 12: "corrupt", 14: "corrupt", // 9 and 14: too few bytes for the pixels they claim
	}}
	for id := range spoiltCount {
		data := s.good(id)
		switch id {
		case 2:
			data = []byte("this is no image at all")
		case 5:
			data = data[:len(data)/2]
		case 9:
			data = pngClaiming(60000, 60000)
		case 11:
			data = nil
		case 12:
			data = bytes.Clone(data)
			data[bytes.Index(data, []byte("IDAT"))+6] ^= 0xff
		case 14:
			data = jpegClaiming(60000, 60000)
		}
		writeFile(t, s.file(id), data)
	}
	return s
}

// shape is the shape of a batch of two: the largest image with a usable header.
func (s spoilt) shape(batch int) (h, w int) {
	for id := 2 * batch; id < 2*batch+2; id++ {
		if s.bad[id] == "" || s.bad[id] == "corrupt" {
			sh, sw := s.size(id)
			h, w = max(h, sh), max(w, sw)
		}
	}
	return h, w
}

// slot is the right content of a batch's slot under a policy.
func (s spoilt) slot(policy string, id int) sampleDoc {
	doc := sampleDoc{ID: id, Label: s.label(id), Status: "ok"}
	doc.Height, doc.Width = s.size(id)
	switch {
	case s.bad[id] == "":
	case policy == "zero":
		doc.Label, doc.Status, doc.Height, doc.Width = -1, "zeroed", 0, 0
	case policy == "replace":
		h, w := s.shape(id / 2)
		for doc.ID = (id + 1) % spoiltCount; ; doc.ID = (doc.ID + 1) % spoiltCount {
			if dh, dw := s.size(doc.ID); s.bad[doc.ID] == "" && dh <= h && dw <= w {
				break
			}
		}
		doc.Label, doc.Status = s.label(doc.ID), "replaced"
		doc.Height, doc.Width = s.size(doc.ID)
	}
	doc.Path, doc.Crop = s.name(doc.ID), [4]int{0, 0, doc.Height, doc.Width}
	return doc
}

// pixels are the pixels of a batch with these slots.
func (s spoilt) pixels(h, w int, fill byte, slots []sampleDoc) []byte {
	var all []byte
	for _, slot := range slots {
		for y := range h {
			for x := range w {
				value := fill
				if y < slot.Height && x < slot.Width {
					value = byte(10 * slot.ID)
				}
				all = append(all, value, value, value)
			}
		}
	}
	return all
}

// batchDoc reads a batch's document.
func (m *mounted) batchDoc(t testing.TB, shard, epoch, batch int) (doc batchDoc) {
	t.Helper()
	check(t, json.Unmarshal(mustRead(t, m.path(shard, epoch, batch, layout.JSON)), &doc))
	return doc
}

// expectBatch checks that a batch has these slots, and their pixels. TestPixels compares all of its
// forms.
func (s spoilt) expectBatch(t testing.TB, m *mounted, batch int, fill byte, slots []sampleDoc) {
	t.Helper()
	h, w := s.shape(batch)
	if !bytes.Equal(m.form(t, 0, 0, batch, layout.NHWCForm), s.pixels(h, w, fill, slots)) {
		t.Errorf("batch %d holds other pixels", batch)
	}
	doc := m.batchDoc(t, 0, 0, batch)
	for i := range doc.Samples {
		doc.Samples[i].Reason = ""
	}
	if !slices.Equal(doc.Samples, slots) || doc.Shape != [4]int{len(slots), h, w, 3} {
		t.Errorf("batch %d.json says %+v, want %dx%d and %+v", batch, doc, h, w, slots)
	}
}

// badLines are the lines of errors.jsonl.
func (m *mounted) badLines(t testing.TB) (lines []badLine) {
	t.Helper()
	text := mustRead(t, filepath.Join(m.dir, ".batchfs", "errors.jsonl"))
	for line := range bytes.Lines(text) {
		var l badLine
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if at, err := time.Parse(time.RFC3339Nano, l.Time); err != nil || at.IsZero() {
			t.Errorf("no time: %s", line)
		}
		lines = append(lines, l)
	}
	return lines
}

type badLine struct {
	Time, Path, Reason string
	ID                 int
}

// expectReports checks for exactly one line per bad file, in errors.jsonl and in the log,
// with its path and reason.
func (s spoilt) expectReports(t testing.TB, m *mounted) {
	t.Helper()
	lines := m.badLines(t)
	seen := map[int]bool{}
	for _, l := range lines {
		if word := s.bad[l.ID]; word == "" || l.Path != s.name(l.ID) || !strings.Contains(l.Reason, word) {
			t.Errorf("errors.jsonl speaks of %+v, where %q was expected", l, word)
		}
		if n := strings.Count(m.logged(), "path="+l.Path); n != 1 || seen[l.ID] {
			t.Errorf("%s is in the log %d times; twice in errors.jsonl: %v", l.Path, n, seen[l.ID])
		}
		seen[l.ID] = true
	}
	if n := m.stats(t).Errors; len(lines) != len(s.bad) || n != int64(len(s.bad)) {
		t.Errorf("%d lines and a count of %d for %d bad files", len(lines), n, len(s.bad))
	}
}

// spoiltMount mounts spoilt images in batches of two.
func spoiltMount(t testing.TB, s spoilt, flags ...string) *mounted {
	t.Helper()
	return mountBatchfs(t, s.dir, append([]string{"--batch-size", "2"}, flags...)...)
}

func tensorForms() []layout.Form {
	return []layout.Form{layout.NHWCForm, layout.NCHWForm, layout.NPY, layout.SafeTensors, layout.PNG}
}

// TestBadFilesFail: by default, a batch with a bad file does not open, in any form, however
// often one tries. Everything else is unaffected.
func TestBadFilesFail(t *testing.T) {
	s := spoiltImages(t)
	m := spoiltMount(t, s)
	for range 3 {
		for batch := range spoiltCount / 2 {
			slots := []sampleDoc{s.slot("fail", 2*batch), s.slot("fail", 2*batch+1)}
			if s.bad[2*batch] == "" && s.bad[2*batch+1] == "" {
				s.expectBatch(t, m, batch, 0, slots)
				continue
			}
			for _, form := range tensorForms() {
				expectOpen(t, m.path(0, 0, batch, form), unix.EIO)
			}
			// Documents that need no pixels are complete.
			if doc := m.batchDoc(t, 0, 0, batch); doc.Samples[0].ID != 2*batch || doc.Samples[1].Path != s.name(2*batch+1) {
				t.Errorf("batch %d: %+v", batch, doc)
			}
		}
	}
	s.expectReports(t, m)
}

// rewrite rewrites a file in place, with a new time.
func rewrite(t testing.TB, path string, data []byte) {
	t.Helper()
	before, err := os.Stat(path)
	check(t, err)
	writeFile(t, path, data)
	// Two writes within one clock tick could look alike.
	later := before.ModTime().Add(time.Second)
	check(t, os.Chtimes(path, later, later))
}

// TestBadFilesReplacedOrZeroed: under these policies every batch opens, and its pixels and document
// agree on what was done, and why.
func TestBadFilesReplacedOrZeroed(t *testing.T) {
	s := spoiltImages(t)
	for policy, why := range map[string]string{"zero": "zeroed unsupported", "replace": "replaced cats/02.png: unsupported"} {
		t.Run(policy, func(t *testing.T) {
			const fill = 77
			m := spoiltMount(t, s, "--on-error", policy, "--fill", fmt.Sprint(fill))
			for _, batch := range []int{7, 0, 2, 1, 3, 4, 6, 5} {
				if h, _ := s.shape(batch); h == 0 {
					t.Fatalf("batch %d has no good image", batch)
				}
				s.expectBatch(t, m, batch, fill, []sampleDoc{s.slot(policy, 2*batch), s.slot(policy, 2*batch+1)})
			}
			if slots, _ := m.statuses(t, 1); !strings.HasPrefix(slots[0], why) || slots[1] != "ok" {
				t.Errorf("the document says %q, not %q", slots, why)
			}
			s.expectReports(t, m)
		})
	}
}

// TestOpenBatchOutlivesItsFiles: an open batch does not change.
func TestOpenBatchOutlivesItsFiles(t *testing.T) {
	const side = 16
	dataset := tiles(t, 8, side)
	m := tileMount(t, dataset, "--prefetch-queue-depth", "0")
	holders := map[string]*partner{"mapped": m.hold(t, "mapped", 0, side, layout.NHWCForm), "open": m.hold(t, "open", 1, side, layout.NHWCForm)}
	for id := range 8 {
		rewrite(t, filepath.Join(dataset, tileName(id)), tileFile(id+50, side))
	}
	for epoch := 1; epoch < 3; epoch++ {
		expectOpen(t, m.path(0, epoch, 0, layout.NHWCForm), unix.EIO)
	}
	stillSame(t, "when all files are others", holders)
	endAll(holders)
}

// statuses returns the status and the reason of each slot, as in a batch's document, and the
// document's size.
func (m *mounted) statuses(t testing.TB, batch int) (slots []string, size int64) {
	t.Helper()
	text := m.form(t, 0, 0, batch, layout.JSON)
	var doc batchDoc
	check(t, json.Unmarshal(text, &doc))
	for _, s := range doc.Samples {
		slots = append(slots, strings.TrimSpace(s.Status+" "+s.Reason))
	}
	return slots, int64(len(text))
}

// TestBadFilesInDocuments: a batch's document lists the files that are known to be bad when it is
// opened, whatever the kernel has cached of it, and its size stays the same.
func TestBadFilesInDocuments(t *testing.T) {
	eachReadPath(t, func(t *testing.T, path string) {
		s := spoiltImages(t)
		m := spoiltMount(t, s, "--read-path", path, "--prefetch-queue-depth", "0")
		same := func(when string, batch, slot int, want string) {
			t.Helper()
			slots, size := m.statuses(t, batch)
			if _, all := m.statuses(t, 0); size != all || !strings.HasPrefix(slots[slot], want) {
				t.Errorf("%s, slot %d of batch %d is %q, not %q; %d bytes, not %d", when, slot, batch, slots[slot], want, size, all)
			}
		}
		same("from the index", 1, 0, "corrupt unsupported")
		same("from the index", 1, 1, "ok")
		same("unread", 6, 0, "ok")
		before, err := os.Open(m.path(0, 0, 6, layout.JSON))
		check(t, err)
		defer before.Close()
		expectOpen(t, m.path(0, 0, 6, layout.NPY), unix.EIO)
		same("after a failure", 6, 0, "corrupt corrupt image: ")
		text := make([]byte, 1<<16)
		if n, err := before.Read(text); err != nil || !strings.Contains(string(text[:n]), `"ok"`) || strings.Contains(string(text[:n]), `"corrupt"`) {
			t.Errorf("an open document has changed: %v: %s", err, text[:n])
		}
		rewrite(t, s.file(12), s.good(12))
		expectOpen(t, m.path(0, 0, 6, layout.NPY), 0)
		same("mended", 6, 0, "ok")
		rewrite(t, s.file(2), pngFile(40, 40, 1)) // good, but sizes are fixed
		expectOpen(t, m.path(0, 0, 1, layout.NPY), unix.EIO)
		rewrite(t, s.file(2), s.good(2))
		expectOpen(t, m.path(0, 0, 1, layout.NPY), 0)
		same("mended", 1, 0, "ok")
	})
}

// TestWhy: the command says why a batch could not be opened, and what to do.
func TestWhy(t *testing.T) {
	s := spoiltImages(t)
	m := spoiltMount(t, s, "--shards", "2")
	why := func(path string, words ...string) {
		t.Helper()
		o := execute(t, "why", path).done(t)
		for _, w := range words {
			if !strings.Contains(o.out, w) {
				t.Errorf("%s: %q is not in\n%s", o.words, w, o.out)
			}
		}
	}
	dir := m.epochDir(0, 0)
	why(m.path(0, 0, 0, layout.NPY), "no open of this batch has failed")
	why(m.path(0, 0, 1, layout.NPY), "no open of this batch has failed", "cats/02.png (id 2): unsupported", "batchfs verify "+s.dir)
	expectOpen(t, m.path(0, 0, 2, layout.NPY), unix.EIO)
	why(m.path(0, 0, 2, layout.Labels), "error 5, EIO: input/output error, at ", "cats/05.png (id 5): corrupt", "--on-error")
	inside := thisUser().daemon([]string{suite.binary, "why", "--json", "batch-00002.npy"})
	inside.Dir = dir
	if o := executeAs(t, inside).done(t); !strings.Contains(o.out, `"error":"EIO"`) || !strings.Contains(o.out, `"id":5`) {
		t.Errorf("%s", o.out)
	}
	absent := "error 2, ENOENT: no such file or directory"
	why(dir+"/batch-00004.npy", absent, "there are 4 batches, batch-00000.npy to batch-00003.npy")
	why(dir+"/batch-2.npy", absent, "it is called batch-00002.npy")
	why(dir+"/batch-00000.npz", absent, `.json or .png, not ".npz"`)
	why(dir+"/batch-00000", absent, `not ""`)
	why(dir+"/batch-00000.npy/x", absent, "the mount has no such name")
	why(m.dir+"/shard-7/epoch-0/batch-00000.npy", absent, "there are 2 shards, shard-0 to shard-1")
	why(m.dir+"/shard-0/epoch-99999999/batch-00000.npy", absent, "epoch-0 to epoch-")
	why(m.dir+"/what", absent, "shard-0/epoch-0/batch-00000.npy")
	for _, path := range []string{m.dir, dir, dir + "/epoch.json", m.dir + "/.batchfs/stats.json"} {
		execute(t, "why", path).wrong(t, "PATH must be a file of a batch", "batchfs why "+m.path(0, 0, 0, layout.NPY))
	}
	for _, path := range []string{s.file(0), "/no/where", "/"} {
		execute(t, "why", path).failed(t, path+" is not in a batchfs mount", "findmnt")
	}
	execute(t, "why").wrong(t, "PATH is missing", "batchfs why PATH")
	m.kill(t)
	for _, path := range []string{m.path(0, 0, 2, layout.NPY), m.path(0, 7, 2, layout.NPY)} { // the kernel knows the first one
		execute(t, "why", path).failed(t, "the daemon of the mount at "+m.dir+" has died", "batchfs umount "+m.dir+"\n")
	}
	execute(t, "umount", m.dir).done(t)
}

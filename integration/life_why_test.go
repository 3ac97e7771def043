package integration

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
)

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

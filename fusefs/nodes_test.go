package fusefs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// Requests are made by calling the methods, as the kernel would; nothing is mounted in
// these tests.

var listed = []layout.Form{layout.NHWCForm, layout.Labels, layout.JSON}

func fakeFilesystem(t testing.TB, src *fakeSource, path string) *filesystem {
	t.Helper()
	o := Options{List: listed, UID: 11, GID: 22, Config: []byte("{\"a\":1}\n")}.withDefaults()
	f, err := newFilesystem(src, o, path)
	testkit.Must(t, err)
	return f
}

// findPath looks up a path, name by name.
func findPath(t testing.TB, f *filesystem, path string) fuse.EntryOut {
	t.Helper()
	out := fuse.EntryOut{NodeId: fuse.FUSE_ROOT_ID}
	for name := range strings.SplitSeq(path, "/") {
		header := fuse.InHeader{NodeId: out.NodeId}
		out = fuse.EntryOut{}
		if st := f.Lookup(nil, &header, name, &out); !st.Ok() || out.NodeId == 0 {
			t.Fatalf("lookup of %q in %q: %v, node %d", name, path, st, out.NodeId)
		}
	}
	return out
}

func openNode(f *filesystem, id uint64, flags uint32) (fuse.OpenOut, fuse.Status) {
	var out fuse.OpenOut
	st := f.Open(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: id}, Flags: flags}, &out)
	return out, st
}

// readAll reads to the end, in requests of an odd size.
func readAll(t testing.TB, f *filesystem, fh uint64) []byte {
	t.Helper()
	var all []byte
	for {
		result, st := f.Read(nil, &fuse.ReadIn{Fh: fh, Offset: uint64(len(all)), Size: 1000}, nil)
		if !st.Ok() {
			t.Fatalf("read at %d: %v", len(all), st)
		}
		data, _ := result.Bytes(nil)
		if len(data) == 0 {
			return all
		}
		all = append(all, data...)
	}
}

func (f *filesystem) closeAll(handles ...uint64) {
	for _, fh := range handles {
		f.Release(nil, &fuse.ReleaseIn{Fh: fh})
	}
}

// openHandles counts the open files.
func (f *filesystem) openHandles() (n int) {
	f.handles.Range(func(any, any) bool { n++; return true })
	return n
}

func TestAttributes(t *testing.T) {
	src := newFake()
	f := fakeFilesystem(t, src, direct)
	k := engine.Key{Shard: 1, Epoch: 2, Batch: 3}
	for _, c := range []struct {
		path  string
		size  int64
		nlink uint32
		dir   bool
	}{
		{"dataset.json", int64(len(datasetJSON(src.catalog()))), 1, false},
		{"classes.txt", 8, 1, false},
		{".batchfs", 0, 2, true},
		{".batchfs/config.json", 8, 1, false},
		{"shard-2", 0, 2 + 4, true},
		{"shard-2/epoch-3", 0, 2, true},
		{"shard-2/epoch-3/epoch.json", int64(len(epochJSON(src.catalog(), 2, 3))), 1, false},
		{"shard-1/epoch-2/batch-00003.nhwc", src.Size(k, layout.NHWCForm), 1, false},
		{"shard-1/epoch-2/batch-00003.npy", src.Size(k, layout.NPY), 1, false},
		{"shard-1/epoch-2/batch-00003.json", src.Size(k, layout.JSON), 1, false},
	} {
		e := findPath(t, f, c.path)
		if e.Size != uint64(c.size) || e.Blocks != uint64(c.size+511)/512 || e.Nlink != c.nlink {
			t.Errorf("%s: size %d, %d blocks, %d links; want %d, %d links", c.path, e.Size, e.Blocks, e.Nlink, c.size, c.nlink)
		}
		want := uint32(unix.S_IFREG | 0o444)
		if c.dir {
			want = unix.S_IFDIR | 0o555
		}
		if e.Mode != want || e.Uid != 11 || e.Gid != 22 || e.Ino != e.NodeId {
			t.Errorf("%s: mode %o, owner %d:%d, inode %d of node %d", c.path, e.Mode, e.Uid, e.Gid, e.Ino, e.NodeId)
		}
		var out fuse.AttrOut
		if st := f.GetAttr(nil, &fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: e.NodeId}}, &out); !st.Ok() {
			t.Errorf("%s: getattr %v", c.path, st)
		}
		if out.Size != e.Size || out.Ino != e.Ino || out.Mode != e.Mode {
			t.Errorf("%s: lookup and getattr differ: %+v, %+v", c.path, e.Attr, out.Attr)
		}
		if !strings.HasPrefix(c.path, ".batchfs/") && (e.Mtime != 1_600_000_000 || e.Mtimensec != 123_456_789) {
			t.Errorf("%s: time %d.%d", c.path, e.Mtime, e.Mtimensec)
		}
	}
	var out fuse.AttrOut
	if st := f.GetAttr(nil, &fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}}, &out); !st.Ok() || out.Nlink != 2+1+3 {
		t.Errorf("root: %v, %d links", st, out.Nlink)
	}
	if st := f.GetAttr(nil, &fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: 20}}, &out); st != fuse.ENOENT {
		t.Errorf("a node that is nobody's: %v", st)
	}
}

// TestLifetimes: the kernel may cache the tree and missing names, but nothing below
// .batchfs.
func TestLifetimes(t *testing.T) {
	f := fakeFilesystem(t, newFake(), direct)
	for _, path := range []string{"dataset.json", "shard-0", "shard-0/epoch-0", "shard-0/epoch-0/batch-00000.nhwc"} {
		if e := findPath(t, f, path); e.EntryTimeout() < time.Hour || e.AttrTimeout() < time.Hour {
			t.Errorf("%s: name for %v, attributes for %v", path, e.EntryTimeout(), e.AttrTimeout())
		}
	}
	if e := findPath(t, f, ".batchfs/stats.json"); e.AttrTimeout() != 0 {
		t.Errorf("stats.json: attributes for %v", e.AttrTimeout())
	}
	var out fuse.EntryOut
	if st := f.Lookup(nil, &fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}, ".git", &out); !st.Ok() || out.NodeId != 0 || out.EntryTimeout() < time.Hour {
		t.Errorf("a name that is not there: %v, node %d, for %v", st, out.NodeId, out.EntryTimeout())
	}
	control := findPath(t, f, ".batchfs").NodeId
	if st := f.Lookup(nil, &fuse.InHeader{NodeId: control}, "nothing", &out); st != fuse.ENOENT {
		t.Errorf("a name that is not in .batchfs: %v", st)
	}
	if st := f.Lookup(nil, &fuse.InHeader{NodeId: findPath(t, f, "dataset.json").NodeId}, "x", &out); st != fuse.ENOTDIR {
		t.Errorf("a name in a file: %v", st)
	}
	var attr fuse.AttrOut
	if st := f.GetAttr(nil, &fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}}, &attr); !st.Ok() || attr.Timeout() > time.Second {
		t.Errorf("the root's attributes for %v: a dead mount would not be noticed", attr.Timeout())
	}
}

// readDir makes one READDIR request with room bytes for entries.
func readDir(t *testing.T, f *filesystem, id, offset uint64, room int) []fuse.DirEntry {
	t.Helper()
	buf := make([]byte, room)
	list := fuse.NewDirEntryList(buf, offset)
	if st := f.ReadDir(nil, &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: id}, Offset: offset, Size: uint32(room)}, list); !st.Ok() {
		t.Fatalf("readdir at %d: %v", offset, st)
	}
	entries, err := fuse.ParseDirEntries(list.Bytes())
	testkit.Must(t, err)
	return entries
}

// TestDirectoriesSeek lists every kind of directory at once, in small pieces, and from
// every offset. The list must always be the same.
func TestDirectoriesSeek(t *testing.T) {
	src := newFake()
	src.most = 60
	f := fakeFilesystem(t, src, direct)
	for _, path := range []string{".", ".batchfs", "shard-1", "shard-1/epoch-1"} {
		id := uint64(fuse.FUSE_ROOT_ID)
		if path != "." {
			id = findPath(t, f, path).NodeId
		}
		all := readDir(t, f, id, 0, 1<<20)
		if all[0].Name != "." || all[0].Ino != id || all[1].Name != ".." {
			t.Errorf("%s starts with %+v", path, all[:2])
		}
		var pieces []fuse.DirEntry
		for offset := uint64(0); ; {
			piece := readDir(t, f, id, offset, 200)
			if len(piece) == 0 {
				break
			}
			pieces = append(pieces, piece...)
			offset = piece[len(piece)-1].Off
		}
		if fmt.Sprint(pieces) != fmt.Sprint(all) {
			t.Errorf("%s: pieces make another list", path)
		}
		offset := uint64(0)
		for i, e := range all {
			rest := readDir(t, f, id, offset, 1<<20)
			if fmt.Sprint(rest) != fmt.Sprint(all[i:]) {
				t.Fatalf("%s from offset %d: another list", path, offset)
			}
			offset = e.Off
		}
		for _, far := range []uint64{uint64(len(all)), uint64(len(all)) + 1, math.MaxInt32, math.MaxInt64, math.MaxUint64} {
			if rest := readDir(t, f, id, far, 1<<20); len(rest) != 0 {
				t.Errorf("%s from offset %d: %d entries", path, far, len(rest))
			}
		}
		for _, e := range all[2:] {
			var out fuse.EntryOut
			f.Lookup(nil, &fuse.InHeader{NodeId: id}, e.Name, &out)
			if out.NodeId != e.Ino || out.Mode&unix.S_IFMT != e.Mode {
				t.Errorf("%s/%s: listed as %d %o, found as %d %o", path, e.Name, e.Ino, e.Mode, out.NodeId, out.Mode)
			}
		}
	}
	var out fuse.OpenOut
	file := findPath(t, f, "dataset.json").NodeId
	if st := f.OpenDir(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: file}}, &out); st != fuse.ENOTDIR {
		t.Errorf("opendir of a file: %v", st)
	}
	if st := f.ReadDir(nil, &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: file}}, fuse.NewDirEntryList(nil, 0)); st != fuse.ENOTDIR {
		t.Errorf("readdir of a file: %v", st)
	}
}

// TestReadEverything opens every form of a batch and every document, which have as many bytes as
// stat says.
func TestReadEverything(t *testing.T) {
	src := newFake()
	f := fakeFilesystem(t, src, direct)
	k := engine.Key{Shard: 2, Epoch: 1, Batch: 4}
	want := map[string][]byte{
		"dataset.json": datasetJSON(src.catalog()), "classes.txt": []byte("cat\ndog\n"),
		"shard-2/epoch-1/epoch.json": epochJSON(src.catalog(), 2, 1), ".batchfs/config.json": []byte("{\"a\":1}\n"),
		".batchfs/memory.json": []byte("{\"buffers\":null}\n"), ".batchfs/errors.jsonl": nil,
	}
	for _, form := range layout.Forms() {
		want["shard-2/epoch-1/batch-00004."+form.Ext()] = src.content(k, form)
	}
	for path, content := range want {
		entry := findPath(t, f, path)
		out, st := openNode(f, entry.NodeId, unix.O_RDONLY)
		if !st.Ok() {
			t.Errorf("open %s: %v", path, st)
			continue
		}
		got := readAll(t, f, out.Fh)
		if !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes differ from the %d expected", path, len(got), len(content))
		}
		if inControl := strings.HasPrefix(path, ".batchfs/"); !inControl && entry.Size != uint64(len(got)) {
			t.Errorf("%s: stat says %d bytes, and there are %d", path, entry.Size, len(got))
		}
		result, st := f.Read(nil, &fuse.ReadIn{Fh: out.Fh, Offset: math.MaxUint64, Size: math.MaxUint32}, nil)
		if !st.Ok() || result.Size() != 0 {
			t.Errorf("%s: read behind the end: %v, %d bytes", path, st, result.Size())
		}
		f.closeAll(out.Fh)
		if _, st := f.Read(nil, &fuse.ReadIn{Fh: out.Fh, Size: 1}, nil); st != fuse.EBADF {
			t.Errorf("%s: read after close: %v", path, st)
		}
		f.closeAll(out.Fh) // a second release has no effect
	}
	if _, live, twice := src.counts(); live != 0 || twice {
		t.Errorf("%d files are open at the end; closed twice: %v", live, twice)
	}
}

// TestOpenFlags pins the open flags of each kind of file.
func TestOpenFlags(t *testing.T) {
	f := fakeFilesystem(t, newFake(), direct)
	for path, want := range map[string]uint32{
		"dataset.json":                           fuse.FOPEN_NOFLUSH,
		"shard-0/epoch-0/batch-00000.labels.npy": fuse.FOPEN_NOFLUSH,
		"shard-0/epoch-0/batch-00000.json":       fuse.FOPEN_NOFLUSH | fuse.FOPEN_DIRECT_IO,
		"shard-0/epoch-0/batch-00000.nhwc":       fuse.FOPEN_NOFLUSH | fuse.FOPEN_DIRECT_IO,
		"shard-0/epoch-0/batch-00000.png":        fuse.FOPEN_NOFLUSH | fuse.FOPEN_DIRECT_IO,
		".batchfs/stats.json":                    fuse.FOPEN_NOFLUSH | fuse.FOPEN_DIRECT_IO,
	} {
		out, st := openNode(f, findPath(t, f, path).NodeId, unix.O_RDONLY)
		if !st.Ok() || out.OpenFlags != want || out.BackingID != 0 {
			t.Errorf("%s: %v, flags %#x, want %#x", path, st, out.OpenFlags, want)
		}
	}
	if st := f.OpenDir(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: 1}}, &fuse.OpenOut{}); !st.Ok() {
		t.Errorf("opendir: %v", st)
	}
}

// TestControlSnapshot: a file below .batchfs keeps the content it had when it was opened.
func TestControlSnapshot(t *testing.T) {
	f := fakeFilesystem(t, newFake(), direct)
	id := findPath(t, f, ".batchfs/stats.json").NodeId
	out, _ := openNode(f, id, unix.O_RDONLY)
	for range 100_000 { // more digits than before
		f.opens.Add(1_000_003)
	}
	data := readAll(t, f, out.Fh)
	var attr fuse.AttrOut
	in := fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: id}, Flags_: fuse.FUSE_GETATTR_FH, Fh_: out.Fh}
	if f.GetAttr(nil, &in, &attr); attr.Size != uint64(len(data)) {
		t.Errorf("the open file has %d bytes, its size is %d", len(data), attr.Size)
	}
	again, _ := openNode(f, id, unix.O_RDONLY)
	if now := readAll(t, f, again.Fh); bytes.Equal(now, data) {
		t.Error("another open shows the same statistics")
	}
	var stats Stats
	testkit.Must(t, json.Unmarshal(data, &stats))
	if stats.ReadPath != "direct" || stats.FUSE.Opens != 0 || stats.FUSE.Reads != 0 || stats.Uptime != 1.5 {
		t.Errorf("looking at the mount changed what is seen, or it is wrong: %+v", stats)
	}
}

func TestReadOnly(t *testing.T) {
	f := fakeFilesystem(t, newFake(), direct)
	id := findPath(t, f, "shard-0/epoch-0/batch-00000.nhwc").NodeId
	for _, flags := range []uint32{unix.O_WRONLY, unix.O_RDWR, unix.O_RDWR | unix.O_CREAT, unix.O_RDONLY | unix.O_TRUNC} {
		if _, st := openNode(f, id, flags); st != fuse.EROFS {
			t.Errorf("open with flags %#o: %v", flags, st)
		}
	}
	if _, st := openNode(f, findPath(t, f, "shard-0").NodeId, unix.O_RDONLY); st != fuse.EISDIR {
		t.Errorf("open of a directory: %v", st)
	}
	if _, st := openNode(f, 20, unix.O_RDONLY); st != fuse.ENOENT {
		t.Errorf("open of a node that is nobody's: %v", st)
	}
	header := &fuse.InHeader{NodeId: id}
	_, write := f.Write(nil, &fuse.WriteIn{}, nil)
	_, writev := f.Writev(nil, &fuse.WriteIn{}, nil)
	for name, st := range map[string]fuse.Status{
		"setattr": f.SetAttr(nil, &fuse.SetAttrIn{}, nil), "mknod": f.Mknod(nil, &fuse.MknodIn{}, "x", nil),
		"mkdir": f.Mkdir(nil, &fuse.MkdirIn{}, "x", nil), "unlink": f.Unlink(nil, header, "x"),
		"rmdir": f.Rmdir(nil, header, "x"), "rename": f.Rename(nil, &fuse.RenameIn{}, "x", "y"),
		"link": f.Link(nil, &fuse.LinkIn{}, "x", nil), "symlink": f.Symlink(nil, header, "x", "y", nil),
		"create": f.Create(nil, &fuse.CreateIn{}, "x", nil), "tmpfile": f.Tmpfile(nil, &fuse.CreateIn{}, nil),
		"fallocate": f.Fallocate(nil, &fuse.FallocateIn{}), "setxattr": f.SetXAttr(nil, &fuse.SetXAttrIn{}, "x", nil),
		"removexattr": f.RemoveXAttr(nil, header, "x"), "write": write, "writev": writev,
		"access": f.Access(nil, &fuse.AccessIn{Mask: unix.W_OK}),
	} {
		if st != fuse.EROFS {
			t.Errorf("%s: %v", name, st)
		}
	}
	if st := f.Access(nil, &fuse.AccessIn{Mask: unix.R_OK | unix.X_OK}); !st.Ok() {
		t.Errorf("access for reading: %v", st)
	}
}

// TestExtendedAttributes: names that are not there, and too little room.
func TestExtendedAttributes(t *testing.T) {
	f := fakeFilesystem(t, newFake(), direct)
	dest := make([]byte, 100)
	const batch = "shard-0/epoch-0/batch-00004."
	for _, path := range []string{batch + "nhwc", "dataset.json", "shard-0", ".batchfs/stats.json"} {
		header := &fuse.InHeader{NodeId: findPath(t, f, path).NodeId}
		if _, st := f.GetXAttr(nil, header, "user.other", dest); st != fuse.Status(syscall.ENODATA) {
			t.Errorf("%s: an attribute that is not there: %v", path, st)
		}
	}
	header := &fuse.InHeader{NodeId: findPath(t, f, batch+"nhwc").NodeId}
	const names = "user.batchfs.shape\x00user.batchfs.dtype\x00user.batchfs.layout\x00user.batchfs.valid\x00"
	if n, st := f.ListXAttr(nil, header, dest); !st.Ok() || string(dest[:n]) != names {
		t.Errorf("names %q, %v", dest[:n], st)
	}
	for _, room := range []int{0, 1, len(names) - 1} {
		if n, st := f.ListXAttr(nil, header, dest[:room]); st != fuse.ERANGE || int(n) != len(names) {
			t.Errorf("names in %d bytes: %d, %v", room, n, st)
		}
		if n, st := f.GetXAttr(nil, header, "user.batchfs.shape", dest[:min(room, 8)]); st != fuse.ERANGE || n != 9 {
			t.Errorf("shape in %d bytes: %d, %v", room, n, st)
		}
	}
	if n, st := f.ListXAttr(nil, &fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}, nil); n != 0 || !st.Ok() {
		t.Errorf("the root's names: %d, %v", n, st)
	}
}

// TestReadyAttribute: reading the attribute begins the batch, in whatever form, and no other
// request does. Asking for its length or for the names of all attributes does not begin the batch.
func TestReadyAttribute(t *testing.T) {
	src := newFake()
	f := fakeFilesystem(t, src, direct)
	dest := make([]byte, 100)
	for _, c := range []struct{ path, want string }{
		{"shard-0/epoch-1/batch-00000.npy", "1"}, {"shard-2/epoch-3/batch-00004.nchw", "0"}, {"shard-1/epoch-0/batch-00001.json", "0"},
	} {
		header := &fuse.InHeader{NodeId: findPath(t, f, c.path).NodeId}
		if n, st := f.GetXAttr(nil, header, readyAttribute, nil); st != fuse.ERANGE || n != 1 {
			t.Errorf("%s: its length is %d, %v", c.path, n, st)
		}
		if n, st := f.GetXAttr(nil, header, readyAttribute, dest); !st.Ok() || string(dest[:n]) != c.want {
			t.Errorf("%s: %q, %v", c.path, dest[:n], st)
		}
		if n, st := f.ListXAttr(nil, header, dest); !st.Ok() || strings.Contains(string(dest[:n]), readyAttribute) {
			t.Errorf("%s: names %q, %v", c.path, dest[:n], st)
		}
	}
	if _, st := f.GetXAttr(nil, &fuse.InHeader{NodeId: findPath(t, f, "dataset.json").NodeId}, readyAttribute, dest); st != fuse.Status(syscall.ENODATA) {
		t.Errorf("a document: %v", st)
	}
	want := []engine.Key{{Epoch: 1}, {Shard: 2, Epoch: 3, Batch: 4}, {Shard: 1, Batch: 1}}
	if !slices.Equal(src.begun, want) || src.opened != 0 {
		t.Errorf("begun: %v, opened: %d", src.begun, src.opened)
	}
}

func TestStatFs(t *testing.T) {
	f := fakeFilesystem(t, newFake(), direct)
	var out fuse.StatfsOut
	if st := f.StatFs(nil, &fuse.InHeader{}, &out); !st.Ok() {
		t.Fatal(st)
	}
	bytesOf := func(blocks uint64) uint64 { return blocks * uint64(out.Frsize) }
	if bytesOf(out.Blocks) != 1<<30 || bytesOf(out.Bfree) != 3<<28 || out.Bavail != out.Bfree || out.NameLen != 255 {
		t.Errorf("%+v", out)
	}
}

// TestOnUnmount: files left open by an aborted connection are closed exactly once.
func TestOnUnmount(t *testing.T) {
	src := newFake()
	f := fakeFilesystem(t, src, direct)
	var handles []uint64
	for _, name := range []string{"nhwc", "nhwc", "npy", "json"} {
		out, st := openNode(f, findPath(t, f, "shard-0/epoch-0/batch-00000."+name).NodeId, 0)
		if !st.Ok() {
			t.Fatal(st)
		}
		handles = append(handles, out.Fh)
	}
	f.OnUnmount()
	f.closeAll(handles...)
	if _, live, twice := src.counts(); live != 0 || twice {
		t.Errorf("%d files are open; closed twice: %v", live, twice)
	}
}

// TestSizeBeyondFiles: a size beyond the maximum is shown as the maximum.
func TestSizeBeyondFiles(t *testing.T) {
	for size, want := range map[int64]uint64{0: 0, math.MaxInt64: math.MaxInt64, math.MinInt64: math.MaxInt64, -1: math.MaxInt64} {
		var out fuse.Attr
		if setSize(&out, size); out.Size != want || out.Blocks != (want+511)/512 {
			t.Errorf("a size of %d is shown as %d, in %d blocks", size, out.Size, out.Blocks)
		}
	}
}

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		err  error
		want fuse.Status
	}{
		{engine.ErrBad, fuse.EIO},
		{fmt.Errorf("a/b.jpg: %w: %w", engine.ErrBad, syscall.ENOENT), fuse.EIO},
		{fmt.Errorf("%w: 17 bytes", engine.ErrNoMemory), fuse.Status(syscall.ENOMEM)},
		{fmt.Errorf("%w: 2^64 bytes", engine.ErrTooBig), fuse.Status(syscall.EFBIG)},
		{context.Canceled, fuse.EINTR},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), fuse.EINTR},
		{fmt.Errorf("%w: 1x2", engine.ErrTooBig), fuse.Status(syscall.EFBIG)},
		{engine.ErrNotExist, fuse.ENOENT},
		{engine.ErrClosed, fuse.Status(syscall.ENOTCONN)},
		{syscall.ENOENT, fuse.EIO},
		{errors.New("anything else"), fuse.EIO},
	} {
		if got, _ := status(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

// FuzzRequests sends random requests to a file system. None may panic or open what cannot
// be opened.
func FuzzRequests(f *testing.F) {
	f.Add(uint64(1), uint64(1), uint64(0), uint32(4096), uint32(0), "shard-0")
	f.Add(uint64(60), uint64(2), uint64(math.MaxUint64), uint32(math.MaxUint32), uint32(2), "batch-00000.nhwc")
	f.Fuzz(func(t *testing.T, id, fh, offset uint64, size, flags uint32, name string) {
		src := newFake()
		src.anonymous = true
		fs := fakeFilesystem(t, src, direct)
		header := fuse.InHeader{NodeId: id}
		var entry fuse.EntryOut
		if fs.Lookup(nil, &header, name, &entry).Ok() && entry.NodeId != 0 {
			var attr fuse.AttrOut
			in := fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: entry.NodeId}, Fh_: fh, Flags_: flags}
			if st := fs.GetAttr(nil, &in, &attr); !st.Ok() || attr.Ino != entry.Ino {
				t.Fatalf("%q was found, but has no attributes: %v", name, st)
			}
		}
		var opened fuse.OpenOut
		if fs.Open(nil, &fuse.OpenIn{InHeader: header, Flags: flags}, &opened).Ok() {
			if flags&unix.O_ACCMODE != 0 {
				t.Fatal("opened for writing")
			}
			fs.Read(nil, &fuse.ReadIn{InHeader: header, Fh: opened.Fh, Offset: offset, Size: size}, nil)
		}
		fs.Read(nil, &fuse.ReadIn{InHeader: header, Fh: fh, Offset: offset, Size: size}, nil)
		fs.ReadDir(nil, &fuse.ReadIn{InHeader: header, Offset: offset}, fuse.NewDirEntryList(make([]byte, size%5000), offset))
		fs.GetXAttr(nil, &header, name, make([]byte, size%100))
		fs.ListXAttr(nil, &header, make([]byte, size%100))
		fs.OpenDir(nil, &fuse.OpenIn{InHeader: header}, &opened)
		fs.Release(nil, &fuse.ReleaseIn{Fh: fh})
		fs.Forget(id, offset)
		fs.OnUnmount()
		if _, live, twice := src.counts(); live != 0 || twice {
			t.Fatalf("%d files are open; closed twice: %v", live, twice)
		}
	})
}

// TestOldKernel: if the kernel cannot map files that are read directly, they go through the
// page cache.
func TestOldKernel(t *testing.T) {
	f := fakeFilesystem(t, newFake(), direct)
	id := findPath(t, f, "shard-0/epoch-0/batch-00000.nhwc").NodeId
	f.adapt(fuse.CAP_PASSTHROUGH | fuse.CAP_DIRECT_IO_ALLOW_MMAP)
	if out, _ := openNode(f, id, 0); out.OpenFlags&fuse.FOPEN_DIRECT_IO == 0 {
		t.Errorf("new kernel: flags %#x", out.OpenFlags)
	}
	f.adapt(fuse.CAP_ASYNC_READ)
	if out, _ := openNode(f, id, 0); out.OpenFlags != fuse.FOPEN_NOFLUSH {
		t.Errorf("old kernel: flags %#x", out.OpenFlags)
	}
}

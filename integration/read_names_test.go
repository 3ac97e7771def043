package integration

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/layout"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestReadNames tries names that do not exist, and near misses: every file has exactly one
// name.
func TestReadNames(t *testing.T) {
	m := mountBatchfs(t, mixedImages(t), "--batch-size", "10", "--shards", "2", "--epochs", "12", "--list", "json,npy")
	wants := map[string]unix.Errno{}
	for _, ext := range formNames() {
		wants["shard-1/epoch-11/batch-00002."+ext] = 0 // listed or not
		wants["shard-1/epoch-12/batch-00002."+ext] = 0 // in an epoch that is not listed
		wants["shard-1/epoch-999999/batch-00002."+ext] = 0
	}
	for _, name := range []string{"dataset.json", "classes.txt", "shard-0/epoch-0/epoch.json", ".batchfs/config.json", ".batchfs/stats.json",
		".batchfs/metrics", ".batchfs/memory.json", ".batchfs/errors.jsonl"} {
		wants[name] = 0
	}
	for _, name := range []string{
		"nothing", "dataset.JSON", "shard-2", "shard-00", "shard--1", "shard-", "shard-+1", "shard-1x", "Shard-1", "shard-18446744073709551617",
		"shard-0/epoch-1000000", "shard-0/epoch-01", "shard-0/epoch-012", "shard-0/epoch-999999/batch-99999.npy", "shard-0/batch-00000.npy", "shard-0/epoch.json", ".batchfs/nothing",
		"shard-0/epoch-0/batch-00000", "shard-0/epoch-0/batch-00000.", "shard-0/epoch-0/batch-0.npy", "shard-0/epoch-0/batch-000000.npy",
		"shard-0/epoch-0/batch-00000.npz", "shard-0/epoch-0/batch-00000.NPY", "shard-0/epoch-0/batch-00000.npy.npy", "shard-0/epoch-0/batch--0001.npy",
		"shard-0/epoch-0/batch-99999.npy", "shard-0/epoch-0/batch-00000.labels", "shard-0/epoch-0/batch-00000.tar", "shard-0/epoch-0/batch-0000٣.npy",
		"shard-0/epoch-0/" + strings.Repeat("x", 255), "shard-0/epoch-0/" + strings.Repeat("x", 256),
	} {
		wants[name] = unix.ENOENT
	}
	wants["dataset.json/x"] = unix.ENOTDIR
	for range 2 { // the second time, the kernel may have cached the answer
		for name, want := range wants {
			expectOpen(t, filepath.Join(m.dir, name), want)
		}
	}
}

// TestReadUnlistedEpochs: an epoch beyond --epochs is not listed, but holds what the plan says,
// and inode numbers do not depend on how many epochs are listed.
func TestReadUnlistedEpochs(t *testing.T) {
	images, s := formImages(t), settings{batch: 9, shards: 2, shuffle: true, seed: 5}
	var inodes []string
	for listed := 1; listed < 4; listed += 2 {
		m := mountBatchfs(t, images, s.flags("--epochs", strconv.Itoa(listed))...)
		if got := strings.Count(m.run(t, "ls", filepath.Join(m.dir, "shard-0")), "epoch-"); got != listed {
			t.Errorf("%d epochs are listed, want %d", got, listed)
		}
		r, last := &formReader{m: m, o: newOracle(t, images, s)}, m.path(1, 999_999, 2, layout.NHWCForm)
		for _, epoch := range []int{3, 999_999} {
			r.epochDocument(t, 1, epoch, r.o.plan.Batches(1, epoch))
			for _, f := range layout.Forms() {
				if err := r.form(r.o.batch(t, 1, epoch, 2), 1, epoch, 2, f); err != nil {
					t.Errorf("%s: %v", m.path(1, epoch, 2, f), err)
				}
			}
		}
		inodes = append(inodes, m.run(t, "stat", "-c", "%i", last, filepath.Dir(last), m.path(0, 0, 0, layout.JSON)))
	}
	if inodes[0] != inodes[1] {
		t.Errorf("inode numbers are %s or %s", inodes[0], inodes[1])
	}
}

func formNames() []string {
	var names []string
	for _, f := range layout.Forms() {
		names = append(names, f.Ext())
	}
	return names
}

// TestReadListed checks that listings match --list exactly, in order.
func TestReadListed(t *testing.T) {
	for _, list := range []string{"", "nchw by layout", "png,nchw"} {
		t.Run("list="+list, func(t *testing.T) {
			flags := []string{"--batch-size", "50", "--shards", "1", "--epochs", "2"}
			want := strings.Split(list, ",")
			switch list {
			case "":
				want = []string{"nhwc", "labels.npy", "json"}
			case "nchw by layout":
				want = []string{"nchw", "labels.npy", "json"}
				flags = append(flags, "--layout", "nchw")
			default:
				flags = append(flags, "--list", list)
			}
			m := mountBatchfs(t, mixedImages(t), flags...)
			names := strings.Split(strings.TrimSpace(m.run(t, "ls", "-U", m.epochDir(0, 1))), "\n")
			wants := []string{"epoch.json"}
			for b := range (len(names) - 1) / len(want) {
				for _, ext := range want {
					wants = append(wants, fmt.Sprintf("batch-%05d.%s", b, ext))
				}
			}
			if diff := cmp.Diff(wants, names); diff != "" || len(wants) == 1 {
				t.Error(diff)
			}
			root := strings.Fields(m.run(t, "ls", "-A", m.dir))
			if diff := cmp.Diff([]string{".batchfs", "classes.txt", "dataset.json", "shard-0"}, root); diff != "" {
				t.Errorf("the root: %s", diff)
			}
			control := strings.Fields(m.run(t, "ls", filepath.Join(m.dir, ".batchfs")))
			if diff := cmp.Diff([]string{"config.json", "errors.jsonl", "memory.json", "metrics", "stats.json"}, control); diff != "" {
				t.Errorf(".batchfs: %s", diff)
			}
		})
	}
}

// TestReadXattrs reads the extended attributes of batches.
func TestReadXattrs(t *testing.T) {
	images := mixedImages(t)
	s := settings{batch: 8, shards: 3, shuffle: true, seed: 1, nchw: true}
	m := mountBatchfs(t, images, s.flags()...)
	o := newOracle(t, images, s)
	for b := range o.plan.Batches(0, 0) {
		x := o.batch(t, 0, 0, b)
		for _, f := range layout.Forms() {
			name, shape := "nchw", [4]int{x.n, x.c, x.h, x.w}
			if f == layout.NHWCForm {
				name, shape = "nhwc", [4]int{x.n, x.h, x.w, x.c}
			}
			path := m.path(0, 0, b, f)
			want := fmt.Sprintf("user.batchfs.shape=%s user.batchfs.dtype=uint8 user.batchfs.layout=%s user.batchfs.valid=%d ",
				strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ","), "[]"), name, x.valid)
			if got := xattrs(t, path); got != want {
				t.Errorf("%s has %s, want %s", path, got, want)
			}
		}
	}
	if s := m.stats(t); s.Batches.Decoded != 0 || s.FUSE.Opens != 0 {
		t.Errorf("reading attributes decoded %d batches and opened %d files", s.Batches.Decoded, s.FUSE.Opens)
	}
	for _, path := range []string{m.dir, m.epochDir(0, 0), filepath.Join(m.dir, "dataset.json")} {
		if got := xattrs(t, path); got != "" {
			t.Errorf("%s has %s", path, got)
		}
	}
}

// xattrs are the extended attributes of a file.
func xattrs(t testing.TB, path string) (all string) {
	t.Helper()
	names, value := make([]byte, 4096), make([]byte, 4096)
	n, err := unix.Listxattr(path, names)
	check(t, err)
	for name := range strings.FieldsFuncSeq(string(names[:n]), func(r rune) bool { return r == 0 }) {
		k, err := unix.Getxattr(path, name, value)
		if err != nil {
			t.Fatalf("%s of %s: %v", name, path, err)
		}
		all += fmt.Sprintf("%s=%s ", name, value[:k])
	}
	return all
}

// TestBegunByAttribute: batches that another process asks for by the attribute are made while it
// does something else, and opened without a wait.
func TestBegunByAttribute(t *testing.T) {
	m := tileMount(t, tiles(t, 64, 2))
	value := make([]byte, 10)
	made := func(batch int) bool {
		n, err := unix.Getxattr(m.path(0, 1, batch, layout.NPY), "user.batchfs.ready", value)
		if err != nil || n != 1 || value[0] != '0' && value[0] != '1' {
			t.Fatalf("batch %d: %q, %v", batch, value[:max(n, 0)], err)
		}
		return value[0] == '1'
	}
	wanted := []int{7, 2, 5}
	for _, batch := range wanted {
		if made(batch) {
			t.Errorf("batch %d is there before it was begun", batch)
		}
	}
	eventually(t, "they are made", func() bool {
		all := true
		for _, batch := range wanted {
			all = made(batch) && all
		}
		return all
	})
	if s := m.stats(t); s.Batches.Decoded != 3 || s.Batches.Opened != 0 {
		t.Errorf("%d batches were made, %d opened", s.Batches.Decoded, s.Batches.Opened)
	}
	for _, batch := range wanted {
		expectOpen(t, m.path(0, 1, batch, layout.NPY), 0)
	}
	if s := m.stats(t); s.Batches.Stalled != 0 {
		t.Errorf("%d opens waited", s.Batches.Stalled)
	}
}

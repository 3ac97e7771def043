package integration

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/batchfs/batchfs/layout"
)

// overReadPaths runs a test with every way of mounting and reading. Passthrough is for root
// only.
func overReadPaths(t *testing.T, test func(t *testing.T, user account, readPath string)) {
	skipWithoutFUSE(t)
	for _, c := range []struct {
		name     string
		account  func(testing.TB) account
		readPath string
	}{
		{"passthrough/root", root, "passthrough"}, {"direct/root", root, "direct"}, {"direct/user", ordinaryUser, "direct"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.readPath == "passthrough" {
				skipWithoutPassthrough(t)
			}
			test(t, c.account(t), c.readPath)
		})
	}
}

// toolSettings are the settings of mounts that common programs read. The order of samples does not
// matter to these programs; TestReadForms tests both orders.
var toolSettings = settings{batch: 8, shards: 3, shuffle: true, seed: 11}

// TestReadFileSystem runs the standard library's file system test on a shard. It reads
// files byte by byte, twice, so the batches are small.
func TestReadFileSystem(t *testing.T) {
	dir := scratch(t)
	for i := range 15 {
		writeFile(t, filepath.Join(dir, fmt.Sprintf("class-%d", i%2), fmt.Sprintf("%02d.ppm", i)), plainImage(1+i%5, 2+i%3, byte(i)))
	}
	eachReadPath(t, func(t *testing.T, readPath string) {
		s := toolSettings
		s.batch, s.shards = 3, 2
		m := mountBatchfs(t, dir, s.flags("--read-path", readPath, "--epochs", "2", "--list", "nhwc,nchw,labels.npy,json")...)
		check(t, fstest.TestFS(os.DirFS(filepath.Join(m.dir, "shard-1")),
			"epoch-0/epoch.json", "epoch-1/batch-00000.nhwc", "epoch-0/batch-00002.json", "epoch-1/batch-00001.nchw"))
	})
}

// plainImage is a PPM of nearly one color.
func plainImage(h, w int, v byte) []byte {
	data := fmt.Appendf(nil, "P6\n%d %d\n255\n", w, h)
	for i := range h * w {
		data = append(data, v, byte(i), v+byte(i))
	}
	return data
}

// TestReadByTools reads batches with common programs. The stress program has the system calls that
// others use.
func TestReadByTools(t *testing.T) {
	images := mixedImages(t)
	overReadPaths(t, func(t *testing.T, user account, readPath string) {
		s := toolSettings
		m := mountAs(t, user, images, s.flags("--read-path", readPath)...)
		r := &toolReader{m: m, o: newOracle(t, images, s), work: filepath.Join(scratch(t), "work")}
		check(t, os.Mkdir(r.work, 0o777))
		check(t, user.own(r.work))
		r.sizesComeFirst(t)
		r.expect(t)
		for _, step := range []struct {
			name string
			run  func(*testing.T)
		}{
			{"sha256sum", r.sha256sum}, {"cp", r.cp}, {"tar", r.tar}, {"dd", r.dd}, {"fio", r.fio},
			{"grep", r.grep}, {"file", r.file}, {"read path", r.readPath},
		} {
			t.Run(step.name, step.run)
		}
	})
}

// A toolReader reads one epoch of one shard.
type toolReader struct {
	m     *mounted
	o     *oracle
	work  string   // a directory that the reading user can write to
	files []string // the batches, in order
	sums  []string // the sha256 of their expected bytes
	size  int      // of the first
}

const toolShard, toolEpoch = 1, 1

// sizesComeFirst stats every form of every batch before any is decoded.
func (r *toolReader) sizesComeFirst(t *testing.T) {
	batches := r.o.plan.Batches(toolShard, toolEpoch)
	for b := range batches {
		r.files = append(r.files, r.m.path(toolShard, toolEpoch, b, layout.NHWCForm))
	}
	var all []string
	for b := range batches {
		for _, f := range layout.Forms() {
			all = append(all, r.m.path(toolShard, toolEpoch, b, f))
		}
	}
	sizes := strings.Fields(r.m.run(t, append([]string{"stat", "-c", "%s"}, all...)...))
	if s := r.m.stats(t); s.Batches.Decoded != 0 || s.Images != 0 || s.Storage.Reads != 0 || s.FUSE.Opens != 0 {
		t.Errorf("after stat alone, the daemon counts %+v", s)
	}
	lengths := strings.Fields(r.m.run(t, append([]string{"sh", "-c", `for f; do wc -c <"$f"; done`, "sh"}, all...)...))
	read := strings.Fields(r.m.run(t, append([]string{"sh", "-c", `for f; do cat "$f" | wc -c; done`, "sh"}, all...)...))
	if len(sizes) != len(all) || len(lengths) != len(all) || len(read) != len(all) {
		t.Fatalf("%d files have %d sizes, %d lengths and %d contents", len(all), len(sizes), len(lengths), len(read))
	}
	for i := range all {
		if sizes[i] != lengths[i] || sizes[i] != read[i] {
			t.Errorf("%s has %s bytes, or %s, but %s when it is read", all[i], sizes[i], lengths[i], read[i])
		}
	}
}

// expect computes what the batches should be.
func (r *toolReader) expect(t *testing.T) {
	for b := range r.files {
		pixels := r.o.batch(t, toolShard, toolEpoch, b).pixels
		r.sums = append(r.sums, fmt.Sprintf("%x", sha256.Sum256(pixels)))
		if b == 0 {
			r.size = len(pixels)
		}
	}
}

// compare compares files, one per batch, with the expected contents.
func (r *toolReader) compare(t *testing.T, what string, files []string) {
	t.Helper()
	for i, path := range files {
		got := mustRead(t, path)
		if sum := fmt.Sprintf("%x", sha256.Sum256(got)); sum != r.sums[i] {
			t.Errorf("%s read other bytes from %s", what, r.files[i])
		}
	}
}

func (r *toolReader) sha256sum(t *testing.T) {
	for i, line := range strings.Split(strings.TrimSpace(r.m.run(t, append([]string{"sha256sum"}, r.files...)...)), "\n") {
		if sum, _, _ := strings.Cut(line, " "); sum != r.sums[i] {
			t.Errorf("%s: %s instead of %s", r.files[i], sum, r.sums[i])
		}
	}
}

func (r *toolReader) cp(t *testing.T) {
	to := filepath.Join(r.work, "copy")
	r.m.run(t, "cp", "-r", "--preserve=timestamps,xattr", r.m.epochDir(toolShard, toolEpoch), to)
	r.m.run(t, "chmod", "u+w", to) // so that it can be removed
	r.compare(t, "cp", r.names(to+"/"))
	listed := strings.Fields(r.m.run(t, "ls", r.m.epochDir(toolShard, toolEpoch)))
	if copied := strings.Fields(r.m.run(t, "ls", to)); len(copied) != len(listed) || len(listed) != 1+3*len(r.files) {
		t.Errorf("%d files were copied, of %d", len(copied), len(listed))
	}
}

// names returns the batches' file names with another prefix.
func (r *toolReader) names(prefix string) []string {
	var names []string
	for _, f := range r.files {
		names = append(names, prefix+filepath.Base(f))
	}
	return names
}

func (r *toolReader) tar(t *testing.T) {
	to := filepath.Join(r.work, "untarred")
	epoch := r.m.epochDir(toolShard, toolEpoch)
	r.m.run(t, "sh", "-ec", `mkdir "$2"; tar -C "$1" -cf "$2/tar" .; tar -C "$1" -df "$2/tar"; tar -C "$2" -xf "$2/tar"; chmod u+w "$2"`, "sh", epoch, to)
	r.compare(t, "tar", r.names(to+"/"))
}

// dd reads in blocks that do not divide the size, from the middle, and past the page cache.
func (r *toolReader) dd(t *testing.T) {
	const program = `set -e
options=$1 to=$2
shift 2
for f; do dd status=none if="$f" of="$to/dd-${f##*/}" $options; done`
	for _, options := range []string{"bs=64K", "bs=1000003", "bs=16M", "iflag=direct bs=4K", "iflag=direct bs=1M", "iflag=nonblock,fullblock bs=3M"} {
		r.m.run(t, append([]string{"sh", "-c", program, "sh", options, r.work}, r.files...)...)
		r.compare(t, "dd "+options, r.names(filepath.Join(r.work, "dd-")))
	}
}

// fio reads sequentially and at random, with read and mapped, with three concurrent threads
// each.
func (r *toolReader) fio(t *testing.T) {
	args := []string{needTool(t, "fio"), "--readonly", "--filename=" + r.files[0], "--size=" + strconv.Itoa(r.size), "--bs=16k",
		"--loops=2", "--thread", "--numjobs=3", "--output=" + filepath.Join(r.work, "fio"), "--aux-path=" + r.work}
	for _, pattern := range []string{"read", "randread"} {
		for _, engine := range []string{"psync", "mmap"} {
			args = append(args, "--name="+pattern+"-"+engine, "--rw="+pattern, "--ioengine="+engine)
		}
	}
	r.m.run(t, args...)
}

// grep and file open with O_NONBLOCK, as tar does, which changes nothing: they wait for the decode.
func (r *toolReader) grep(t *testing.T) {
	out := r.m.run(t, needTool(t, "grep"), "--recursive", "--text", "--count", "", r.m.epochDir(toolShard, toolEpoch+1))
	if n := strings.Count(out, "\n"); n < 1+3*(len(r.files)-1) {
		t.Errorf("grep -r reads %d files, of %d batches", n, len(r.files))
	}
}

func (r *toolReader) file(t *testing.T) {
	if says := r.m.run(t, needTool(t, "file"), r.m.path(toolShard, toolEpoch+2, 1, layout.NPY)); !strings.Contains(says, "NumPy") {
		t.Errorf("file says %s", says)
	}
}

// readPath comes last: it checks that everything was read over the requested path.
func (r *toolReader) readPath(t *testing.T) {
	s := r.m.stats(t)
	wanted := "direct"
	if strings.Contains(t.Name(), "passthrough") {
		wanted = "passthrough"
	}
	if s.ReadPath != wanted {
		t.Errorf("the read path is %s, not %s", s.ReadPath, wanted)
	}
	const most = 1000 // the documents, which are not in batch memory
	if passthrough := wanted == "passthrough"; passthrough != (s.FUSE.Reads < most) {
		t.Errorf("the daemon answered %d reads", s.FUSE.Reads)
	}
}

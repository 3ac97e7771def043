package integration

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
)

// TestToolsThatOpenWithoutWaiting: GNU tar, grep -r and file open with O_NONBLOCK, which changes
// nothing: they wait for the decode, and get what everybody gets.
func TestToolsThatOpenWithoutWaiting(t *testing.T) {
	m := tileMount(t, tiles(t, 16, 8))
	tool := func(name string, args ...string) []byte {
		t.Helper()
		if _, err := exec.LookPath(name); err != nil {
			t.Logf("SKIPPED: %v", err)
			return nil
		}
		cmd := exec.Command(name, args...)
		var failed bytes.Buffer
		cmd.Stderr = &failed
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, failed.String())
		}
		return out
	}
	dir := filepath.Dir(m.path(0, 0, 0, layout.NHWCForm))
	files := 0
	for r := tar.NewReader(bytes.NewReader(tool("tar", "-C", dir, "-c", "."))); ; {
		head, err := r.Next()
		if err != nil {
			if err != io.EOF {
				t.Error(err)
			}
			break
		}
		if head.Typeflag != tar.TypeReg {
			continue
		}
		files++
		packed, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		read, err := os.ReadFile(filepath.Join(dir, head.Name))
		if err != nil || !bytes.Equal(packed, read) {
			t.Errorf("tar packs %d bytes of %s, which are not the %d that are read, %v", len(packed), head.Name, len(read), err)
		}
	}
	if files < 4 {
		t.Errorf("tar packs %d files", files)
	}
	dir = filepath.Dir(m.path(0, 1, 0, layout.NHWCForm))
	if n := strings.Count(string(tool("grep", "--recursive", "--text", "--count", "", dir)), "\n"); n != files {
		t.Errorf("grep -r reads %d files, of %d", n, files)
	}
	if says := string(tool("file", m.path(0, 2, 1, layout.NPY))); says != "" && !strings.Contains(says, "NumPy") {
		t.Errorf("file says %s", says)
	}
	if fd, err := unix.Open(m.path(0, 2, 2, layout.NHWCForm), unix.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
		t.Error(err)
	} else {
		unix.Close(fd)
	}
	m.finish(t)
}

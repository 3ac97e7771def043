package dataset

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestIndexOfDALI: of a tar of large images in a store, only the parts named by DALI's index beside
// it are read. A damaged index, or one of another tar, changes only how much is read, and one log
// line names it.
func TestIndexOfDALI(t *testing.T) {
	const samples, size = 20, 400_000
	p := newPlace(t)
	var files []string
	idx, old, place := fmt.Sprintf("v1.2 %d\n", samples), fmt.Sprintf("v1.2 %d\n", samples), 512
	for i := range samples {
		files = append(files, fmt.Sprintf("w/%02d.jpg", i), fmt.Sprintf("w/%02d.cls", i))
		image := image("jpeg", 10+i, 20, 1)
		p.write(files[2*i], image+strings.Repeat("x", size-len(image)))
		p.write(files[2*i+1], fmt.Sprint(i))
		idx += fmt.Sprintf("jpg %d %d %s ", place, size, files[2*i])
		old += fmt.Sprintf("jpg %d %d %s\n", place+size/2, size/2, files[2*i])
		place += (size+511)/512*512 + 512
		idx += fmt.Sprintf("cls %d %d %s\n", place, len(fmt.Sprint(i)), files[2*i+1])
		place += 1024
	}
	p.pack("x.tar", "", files...)
	reads, how := p.serveNoting()
	const all = samples * size
	var want string
	for _, c := range []struct {
		name, idx string
		less      bool
		log       string
	}{
		{"none", "", false, ""},
		{"true", idx, true, ""},
		{"old", old, false, "that of another tar"},
		{"cut", idx[:len(idx)-20], false, "a line ends within a file"},
		{"another file", "x", false, "its version"},
	} {
		if c.idx != "" {
			p.write("x.idx", c.idx)
		}
		var log bytes.Buffer
		reads.bytes.Store(0)
		d := p.open("s3://data/x.tar", how, at(t.TempDir()), func(o *Options) {
			o.Memory, o.Logger = 12<<20, slog.New(slog.NewTextHandler(&log, nil))
		})
		if got := strings.Join(describe(d), "\n"); want == "" {
			want = got
		} else if got != want {
			t.Errorf("%s: another dataset:\n%s", c.name, got)
		}
		if n := reads.bytes.Load(); (n < all/10) != c.less || n > 2*all {
			t.Errorf("%s: %d bytes were asked for, of %d", c.name, n, all)
		}
		if lines := strings.Count(log.String(), "DALI"); !strings.Contains(log.String(), c.log) || (lines == 1) != (c.log != "") {
			t.Errorf("%s: the log is %s", c.name, log.String())
		}
		if r := d.Report; r.Scanned != samples {
			t.Errorf("%s: %d headers were read", c.name, r.Scanned)
		}
	}
}

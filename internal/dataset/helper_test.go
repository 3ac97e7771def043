package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/store"
	"github.com/batchfs/batchfs/internal/testkit"
)

// equal reports how got differs from want, and in what.
func equal(t testing.TB, want, got any, what string, args ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf(what+" (-want +got):\n%s", append(args, diff)...)
	}
}

// A test image is one line, "img FORMAT HEIGHT WIDTH ORIENTATION NEED", followed by anything. The
// prober pretends to need NEED bytes.

func image(format string, height, width, orientation int) string {
	return fmt.Sprintf("img %s %d %d %d 0\npixels", format, height, width, orientation)
}

// counter is a Prober that counts its calls and bytes.
type counter struct{ calls, bytes atomic.Int64 }

func (c *counter) probe(data, tail []byte, size int64) (Header, error) {
	complete := int64(len(data)) == size
	c.calls.Add(1)
	c.bytes.Add(int64(len(data)))
	line, _, found := bytes.Cut(data, []byte("\n"))
	if !found && !complete {
		return Header{}, fmt.Errorf("header: %w", ErrShort)
	}
	var h Header
	var need int
	if _, err := fmt.Sscanf(string(line), "img %s %d %d %d %d", &h.Format, &h.Height, &h.Width, &h.Orientation, &need); err != nil {
		return Header{}, fmt.Errorf("no image")
	}
	if len(data) < need && !complete {
		return Header{}, ErrShort
	}
	return h, nil
}

// place is a dataset's directory and a cache directory next to it.
type place struct {
	t     testing.TB
	root  string
	cache string
	c     counter
	how   Storage
}

func newPlace(t testing.TB) *place {
	dir := t.TempDir()
	p := &place{t: t, root: filepath.Join(dir, "data"), cache: filepath.Join(dir, "cache")}
	p.mkdir("")
	return p
}

func (p *place) path(name string) string { return filepath.Join(p.root, name) }

// find returns the path of a name, or the name itself if it is a path or a URL.
func (p *place) find(name string) string {
	if filepath.IsAbs(name) || store.IsURL(name) {
		return name
	}
	return p.path(name)
}

func (p *place) mkdir(name string) {
	p.t.Helper()
	testkit.Must(p.t, os.MkdirAll(p.path(name), 0o755))
}

func (p *place) write(name, content string) {
	p.t.Helper()
	p.mkdir(filepath.Dir(name))
	testkit.Must(p.t, os.WriteFile(p.path(name), []byte(content), 0o644))
}

// images writes a 10x20 image for each name.
func (p *place) images(names ...string) {
	p.t.Helper()
	for _, name := range names {
		p.write(name, image("jpeg", 10, 20, 1))
	}
}

func (p *place) link(target, name string) {
	p.t.Helper()
	p.mkdir(filepath.Dir(name))
	testkit.Must(p.t, os.Symlink(target, p.path(name)))
}

// settled is the time that settle sets. It is constant, so that files left alone between two
// calls also keep their time.
var settled = time.Unix(1_600_000_000, 123456789)

// settle makes everything old, so that unchanged timestamps prove that nothing changed.
func (p *place) settle() {
	p.t.Helper()
	err := filepath.WalkDir(p.root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		ts := unix.NsecToTimespec(settled.UnixNano())
		return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
	})
	testkit.Must(p.t, err)
}

func (p *place) options() Options {
	return Options{CacheDir: p.cache, Workers: 4, Storage: p.how, Prober: p.c.probe, Logger: slog.New(slog.DiscardHandler)}
}

// open opens the dataset, or the manifest, path or URL that is named.
func (p *place) open(manifest string, change ...func(*Options)) *Dataset {
	p.t.Helper()
	d, err := p.tryOpen(manifest, change...)
	testkit.Must(p.t, err)
	return d
}

func (p *place) tryOpen(manifest string, change ...func(*Options)) (*Dataset, error) {
	p.t.Helper()
	o := p.options()
	for _, f := range change {
		f(&o)
	}
	d, err := Open(context.Background(), p.find(manifest), o)
	if err == nil {
		p.t.Cleanup(func() { d.Close() })
	}
	return d, err
}

// refused checks that opening fails with an error that wraps want, unless want is nil, and contains
// words.
func (p *place) refused(want error, words, name string, change ...func(*Options)) {
	p.t.Helper()
	_, err := p.tryOpen(name, change...)
	if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), words) {
		p.t.Errorf("%s: the error is %v, and not %v, %q", name, err, want, words)
	}
}

// probes returns the number of prober calls since the last probes.
func (p *place) probes() int { return int(p.c.calls.Swap(0)) }

// describe is everything a dataset reports, for comparisons.
func describe(d *Dataset) []string {
	lines := []string{
		fmt.Sprintf("root %q classes %q digest %s time %d", d.Root, d.Classes, d.Digest, d.ModTime.UnixNano()),
	}
	r := d.Report
	r.Scanned, r.Reused = 0, 0
	lines = append(lines, fmt.Sprintf("%+v", r))
	for i := range d.Len() {
		h, w := d.Size(i, false)
		sh, sw := d.Size(i, true)
		lines = append(lines, fmt.Sprintf("%q %d %dx%d %dx%d %s %+v %q",
			d.Path(i), d.Label(i), h, w, sh, sw, d.Format(i), d.Stat(i), d.Problem(i)))
	}
	return lines
}

func paths(d *Dataset) []string {
	var all []string
	for i := range d.Len() {
		all = append(all, d.Path(i))
	}
	return all
}

func labels(d *Dataset) []int {
	var all []int
	for i := range d.Len() {
		all = append(all, d.Label(i))
	}
	return all
}

func problemOf(s *table, i int) string { return s.problem(i, false) }

// Load is LoadPart of a whole file.
func (d *Dataset) Load(ctx context.Context, i int, buf []byte, grow func(n int) []byte) ([]byte, Identity, error) {
	data, _, id, err := d.LoadPart(ctx, i, 0, buf, grow, nil, 0)
	return data, id, err
}

// Read is Load without cancellation and without the identity that was read.
func (d *Dataset) Read(i int, buf []byte, grow func(n int) []byte) ([]byte, error) {
	data, _, err := d.Load(context.Background(), i, buf, grow)
	return data, err
}

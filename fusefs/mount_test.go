package fusefs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"golang.org/x/sys/unix"
)

// TestMountRequests counts the requests for large files: none if the kernel serves them
// itself, otherwise one per MiB. There may be two more: for a buffer that starts in the
// middle of a page, and for the end of the file.
func TestMountRequests(t *testing.T) {
	const read = `
import os, sys
fd, buffer = os.open(sys.argv[1], os.O_RDONLY), bytearray(8 << 20)
while os.readv(fd, [buffer]): pass
`
	for path, want := range map[string]int64{"passthrough": 0, "direct": 8} {
		t.Run(path, func(t *testing.T) {
			src := newFake()
			src.spec = layout.Spec{N: 8, H: 1024, W: 1024, C: 1}
			s := mounted(t, src, Options{ReadPath: path})
			python(t, read, batchPath(s.Path(), 0, 0, 0, layout.NHWCForm))
			f := s.fs
			if opens, reads := f.opens.Load(), f.reads.Load(); opens != 1 || reads < want || path == "passthrough" && reads > 0 || reads > want+2 {
				t.Errorf("%d opens, %d reads; want 1 and %d", opens, reads, want)
			}
			if buffers := want / 8 * directBackground * largeRequest; src.reserved < buffers || path == "passthrough" && src.reserved > 0 {
				t.Errorf("%d bytes are reserved for buffers of requests, want at least %d", src.reserved, buffers)
			}
		})
	}
}

func TestRequestSize(t *testing.T) {
	for _, c := range []struct {
		read  string
		limit int64
		want  int
	}{
		{"passthrough", 1 << 40, 128 << 10},
		{"direct", 1 << 40, 1 << 20},
		{"direct", 512 << 20, 1 << 20},
		{"direct", 512<<20 - 1, 512 << 10},
		{"direct", 1, 128 << 10},
	} {
		if got := requestSize(c.read, c.limit); got != c.want {
			t.Errorf("%s, with a limit of %d: requests of %d bytes, want %d", c.read, c.limit, got, c.want)
		}
	}
}

// TestMountBad: an engine error reaches the process that opens the batch.
func TestMountBad(t *testing.T) {
	src := newFake()
	src.before = func(_ context.Context, k engine.Key) error {
		switch k.Batch {
		case 0:
			return fmt.Errorf("%w: a.jpg: truncated", engine.ErrBad)
		case 1:
			return engine.ErrNoMemory
		case 2:
			panic("a bug")
		case 3:
			return fmt.Errorf("%w: 2^63 bytes", engine.ErrTooBig)
		}
		return nil
	}
	var log lockedBuffer
	s := mounted(t, src, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	const open = `
import sys
for path in sys.argv[1:]:
    try: open(path, "rb").close()
    except OSError as e: print(e.errno)
    else: print(0)
`
	var files []string
	for i := range 5 {
		files = append(files, batchPath(s.Path(), 0, 0, i, layout.NHWCForm))
	}
	want := fmt.Sprintf("%d\n%d\n%d\n%d\n0", unix.EIO, unix.ENOMEM, unix.EIO, unix.EFBIG)
	if got := python(t, open, files...); got != want {
		t.Errorf("errors %q, want %q", got, want)
	}
	for _, words := range []string{"panic in a request", "a bug", "TestMountBad"} { // the stack
		if !strings.Contains(log.String(), words) {
			t.Errorf("the log does not have %q:\n%s", words, log.String())
		}
	}
}

// A lockedBuffer is a log that a test can read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestMountedByOthers: another process checks and unmounts the mount.
func TestMountedByOthers(t *testing.T) {
	s := mounted(t, newFake(), Options{})
	if out, err := play(t, "part-check", s.Path()); err == nil || !strings.Contains(out, ErrMounted.Error()) {
		t.Errorf("check of a mount: %v: %s", err, out)
	}
	link := t.TempDir() + "/link"
	testkit.Must(t, os.Symlink(s.Path(), link))
	if out, err := play(t, "part-umount", link); err != nil {
		t.Fatalf("unmount through a link: %v: %s", err, out)
	}
	s.Wait()
	if out, err := play(t, "part-umount", s.Path()); err == nil || !strings.Contains(out, ErrNotMounted.Error()) {
		t.Errorf("unmount of nothing: %v: %s", err, out)
	}
	if err := s.Detach(); err != nil {
		t.Errorf("detach after the end: %v", err)
	}
}

// TestForeignMount: a mount that is not batchfs is left alone, even on top of one that is.
func TestForeignMount(t *testing.T) {
	if !privileged() {
		t.Skip("SKIPPED: mounting another file system needs CAP_SYS_ADMIN")
	}
	s := mounted(t, newFake(), Options{})
	testkit.Must(t, unix.Mount("over", s.Path(), "tmpfs", 0, "size=4k"))
	if err := s.Unmount(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("unmount of a mount that is covered: %v", err)
	}
	if err := s.Detach(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("detach of a mount that is covered: %v", err)
	}
	if dead, err := Unmount(t.Context(), s.Path(), true); dead || !errors.Is(err, ErrNotMounted) {
		t.Errorf("unmount of a foreign mount: %v, %v", dead, err)
	}
	if err := unix.Unmount(s.Path(), 0); err != nil {
		t.Fatalf("the foreign mount is gone: %v", err)
	}
}

// TestMountSeenElsewhere: a mount that is also bound to another directory outlives its own
// mountpoint, and the error of Unmount names the other directory.
func TestMountSeenElsewhere(t *testing.T) {
	s, elsewhere := mounted(t, newFake(), Options{}), t.TempDir()
	if !privileged() {
		t.Skip("SKIPPED: binding a mount to another directory needs CAP_SYS_ADMIN")
	}
	if _, err := command(t, "mount", "--bind", s.Path(), elsewhere); err != nil {
		t.Fatal(err)
	}
	var held *HeldError
	if err := s.Unmount(); !errors.As(err, &held) || len(held.Holders) != 1 || held.Holders[0] != (Holder{Path: elsewhere}) {
		t.Errorf("unmount says %v", err)
	}
	<-s.Gone()
	if err := errors.Join(s.Unmount(), s.Detach()); err != nil {
		t.Errorf("once more: %v", err)
	}
	if _, err := command(t, "cat", elsewhere+"/dataset.json"); err != nil {
		t.Errorf("the other directory: %v", err)
	}
	if err := unix.Unmount(elsewhere, 0); err != nil {
		t.Error(err)
	}
	s.Wait()
	if found := s.Holders(); found != nil {
		t.Errorf("after the end it is held by %v", found)
	}
}

// TestMountAborted: if the connection is aborted, the mount ends and leaves no dead
// directory behind.
func TestMountAborted(t *testing.T) {
	if !privileged() {
		t.Skip("SKIPPED: mounting the file system that cuts connections needs CAP_SYS_ADMIN")
	}
	s := mounted(t, newFake(), Options{})
	control := t.TempDir()
	if err := unix.Mount("fusectl", control, "fusectl", 0, ""); err != nil {
		t.Skipf("SKIPPED: no connection can be cut here: %v", err)
	}
	defer func() {
		if err := unix.Unmount(control, 0); err != nil {
			t.Error(err)
		}
	}()
	_, minor, _ := strings.Cut(s.mount.device, ":")
	testkit.Must(t, os.WriteFile(control+"/"+minor+"/abort", []byte("1"), 0))
	s.Wait()
	if _, err := emptyDirectory(s.Path()); err != nil {
		t.Error(err)
	}
	if err := s.Unmount(); err != nil {
		t.Errorf("unmount after the end: %v", err)
	}
}

func TestCheckMountpoint(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/file"
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	for path, want := range map[string]error{
		t.TempDir(): nil, dir: errNotEmpty, file: errNotDirectory,
		dir + "/missing": os.ErrNotExist, dir + "/missing/too": os.ErrNotExist,
	} {
		_, err := emptyDirectory(path)
		if !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	if _, err := emptyDirectory(""); err == nil {
		t.Error("no mountpoint at all is accepted")
	}
	if _, err := mount(dir, newFake(), Options{}); !errors.Is(err, errNotEmpty) {
		t.Errorf("mount on a directory with a file: %v", err)
	}
}

// TestWithoutFiles: batches that are not in files cannot be read by passthrough.
func TestWithoutFiles(t *testing.T) {
	needMounts(t)
	anonymous := newFake()
	anonymous.anonymous = true
	if s, err := mount(t.TempDir(), anonymous, Options{ReadPath: "passthrough"}); err == nil {
		t.Error("mounted for passthrough without files to serve")
		_ = s.Unmount()
	}
	if s := mounted(t, anonymous, Options{}); s.ReadPath() != "direct" || !strings.Contains(s.Reason(), "anonymous memory") {
		t.Errorf("read path %s, reason %q", s.ReadPath(), s.Reason())
	}
}

// TestProbe: Probe leaves nothing behind and agrees with a mount.
func TestProbe(t *testing.T) {
	Probe()
	before := openDescriptors(t)
	c := Probe()
	if after := openDescriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if c.Passthrough != (c.Reason == "") || c.Kernel == "" {
		t.Errorf("%+v", c)
	}
	needMounts(t)
	if s := mounted(t, newFake(), Options{}); (s.ReadPath() == "passthrough") != c.Passthrough {
		t.Errorf("the mount reads by %s (%s), the probe says %+v", s.ReadPath(), s.Reason(), c)
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	testkit.Must(t, err)
	return len(entries)
}

// TestAliveUntilTheOtherSideEnds: poll reports a hangup at one end of a pipe and an error at the
// other. A connection is dead with either.
func TestAliveUntilTheOtherSideEnds(t *testing.T) {
	for _, what := range []string{"hangup", "error"} {
		stays, goes, err := os.Pipe()
		testkit.Must(t, err)
		if what == "error" {
			stays, goes = goes, stays
		}
		defer stays.Close()
		c := connection{device: stays}
		if !c.alive() {
			t.Errorf("%s: dead before the end", what)
		}
		if goes.Close(); c.alive() {
			t.Errorf("%s: alive after the end", what)
		}
	}
}

// TestAliveDespiteSignals: a signal that interrupts the look at the device does not make a
// connection seem dead.
func TestAliveDespiteSignals(t *testing.T) {
	r, w, err := os.Pipe()
	testkit.Must(t, err)
	defer w.Close()
	c := connection{device: r}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, done := unix.Gettid(), make(chan struct{})
	var stop atomic.Bool
	go func() {
		defer close(done)
		for !stop.Load() {
			_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG) // Go's runtime handles and ignores this signal
		}
	}()
	for start := time.Now(); time.Since(start) < time.Second; {
		if !c.alive() {
			t.Error("dead")
			break
		}
	}
	stop.Store(true)
	<-done
	if r.Close(); c.alive() {
		t.Error("alive after the end")
	}
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/affinity"
	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
	"github.com/batchfs/batchfs/resample"
	"github.com/batchfs/batchfs/shard"
)

// requested parses a command line of mount and returns what it asks for.
func requested(t *testing.T, args ...string) (r mountRequest, err error) {
	t.Helper()
	c := &console{out: io.Discard, err: io.Discard, env: readEnvironment(func(string) string { return "" }, 0), machine: machineOf(map[string]string{"proc/meminfo": "MemTotal: 1024 kB\n"})}
	app := newApp(c)
	for _, command := range app.Commands {
		if command.Name == "mount" {
			command.Action = func(ctx *cli.Context) error {
				r, err = c.mountRequest(ctx)
				return err
			}
		}
	}
	words, err := c.read(app.Commands, append([]string{"batchfs", "mount"}, args...))
	if err != nil {
		return r, err
	}
	return r, app.Run(append([]string{"batchfs"}, words...))
}

// anyCPU is one that this process may use.
func anyCPU(t *testing.T) int {
	t.Helper()
	allowed, err := affinity.Current()
	if err != nil {
		t.Fatal(err)
	}
	for cpu := range allowed.All() {
		return cpu
	}
	t.Fatal("no CPU may be used")
	return 0
}

func TestMountDefaults(t *testing.T) {
	r, err := requested(t, "photos", "mnt")
	if err != nil {
		t.Fatal(err)
	}
	want := engine.Options{
		Shards: 1, BatchSize: 32, PadLastBatch: true, LastBatch: shard.Fill, Epochs: 100, MaxPixels: 1 << 28,
		CropArea: [2]float64{0.08, 1}, CropRatio: [2]float64{3. / 4, 4. / 3}, PadMultiple: 1,
		Workers: 4, BatchWorkers: 2, PrefetchDepth: 2, MemoryLimit: 512 << 10, Memory: pinned.DefaultPolicy(), Lock: true,
		CacheSize: engine.AutoCache, CachePolicy: cache.Constant,
	}
	r.engine.Logger = nil
	if diff := cmp.Diff(want, r.engine); diff != "" {
		t.Errorf("engine: %s", diff)
	}
	tree := fusefs.Options{
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), FileMode: 0o444, DirMode: 0o555, ReadPath: "auto",
		List: []layout.Form{layout.NHWCForm, layout.Labels, layout.JSON},
	}
	r.tree.Logger = nil
	if diff := cmp.Diff(tree, r.tree); diff != "" {
		t.Errorf("tree: %s", diff)
	}
	if r.dataset != "photos" || r.mountpoint != "mnt" || r.daemon || r.readyFD != -1 || r.source.workers != 4 {
		t.Errorf("got %+v", r)
	}
}

func TestMountFlags(t *testing.T) {
	cpu := anyCPU(t)
	r, err := requested(t, "--shards", "8", "photos", "--batch-size=256", "mnt", "--shuffle", "--seed", "18446744073709551615",
		"--stick-to-shard", "--pad-last-batch=false", "--last-batch", "drop", "--size", "224x320", "--color", "gray", "--fill", "127",
		"--layout", "nchw", "--epochs", "3", "--list", ".npy,json,npy", "--prefetch-queue-depth", "5", "--workers", "7", "--memory-limit", "2GiB",
		"--on-error", "zero", "--max-pixels", "1000", "--ignore-orientation", "--allow-outside", "--read-path", "direct", "--allow-other",
		"--uid", "1000", "--gid", "100", "--file-mode", "0640", "--dir-mode", "750", "--log-level", "error", "-o", "batch_workers=3",
		"--resize", "random-resized-crop", "--crop-area", "0.1,0.9", "--crop-ratio", "1, 3/2", "--flip", "1/2", "--dtype", "bfloat16", "--mean", "118.5",
		"--std", "58", "--bytes-per-sample", "batch=150528, scratch=1MiB", "--cache-size", "1GiB", "--cache-policy", "static", "--local-shards", "2-3", "--io", "buffered", "--max-read-bandwidth", "1MB", "--affinity", strings.Repeat(fmt.Sprintf("%d,", cpu), 6)+fmt.Sprint(cpu))
	if err != nil {
		t.Fatal(err)
	}
	want := engine.Options{
		Shards: 8, BatchSize: 256, Shuffle: true, Seed: 1<<64 - 1, StickToShard: true, LastBatch: shard.Drop, Epochs: 3,
		Resize: resample.RandomResizedCrop, CropArea: [2]float64{0.1, 0.9}, CropRatio: [2]float64{1, 1.5}, Flip: 0.5, PadMultiple: 1,
		DType: layout.BFloat16, Normalize: layout.Normalization{Mean: []float64{118.5}, Std: []float64{58}},
		Height: 224, Width: 320, Color: decode.Gray, Fill: 127, Layout: layout.NCHW, IgnoreOrientation: true, MaxPixels: 1000,
		OnError: engine.Zero, Workers: 7, BatchWorkers: 3, PrefetchDepth: 5, MemoryLimit: 2 << 30,
		Memory: pinned.DefaultPolicy(), Lock: true, Hints: engine.Hints{Batch: 150528, Scratch: 1 << 20},
		CacheSize: 1 << 30, CachePolicy: cache.Static, LocalFrom: 2, LocalTo: 4,
		Affinity: slices.Repeat([]affinity.Set{affinity.Of(cpu)}, 7),
	}
	r.engine.Logger = nil
	if diff := cmp.Diff(want, r.engine); diff != "" {
		t.Errorf("engine: %s", diff)
	}
	tree := fusefs.Options{
		AllowOther: true, UID: 1000, GID: 100, FileMode: 0o640, DirMode: 0o750, ReadPath: "direct",
		List: []layout.Form{layout.NPY, layout.JSON},
	}
	r.tree.Logger = nil
	if diff := cmp.Diff(tree, r.tree); diff != "" {
		t.Errorf("tree: %s", diff)
	}
	if !r.source.allowOutside {
		t.Error("--allow-outside was lost")
	}
}

// TestArgumentsNamedLikeWords: the parser below would take some arguments for
// commands or flags of its own.
func TestArgumentsNamedLikeWords(t *testing.T) {
	for _, names := range [][2]string{{"help", "h"}, {"shards", "seed"}, {"mount", "-"}} {
		r, err := requested(t, "--shards", "2", "--seed=1", names[0], names[1])
		if err != nil || r.dataset != names[0] || r.mountpoint != names[1] {
			t.Errorf("%q: got %q and %q, %v", names, r.dataset, r.mountpoint, err)
		}
	}
	r, err := requested(t, "--shuffle", "--", "--photos", "-mnt")
	if err != nil || r.dataset != "--photos" || r.mountpoint != "-mnt" || !r.engine.Shuffle {
		t.Errorf("behind a double dash: got %q and %q, %v", r.dataset, r.mountpoint, err)
	}
}

func TestMountSettings(t *testing.T) {
	r, err := requested(t, "photos", "mnt", "--batch-size", "7", "--shuffle", "--daemon")
	if err != nil {
		t.Fatal(err)
	}
	flags := r.settings["flags"].(map[string]any)
	if flags["batch-size"] != "7" || flags["shuffle"] != true || flags["workers"] != 4 || flags["memory-limit"] != int64(512<<10) {
		t.Errorf("got %v", flags)
	}
	for _, name := range []string{"help", "daemon", "ready-fd", "o"} {
		if _, there := flags[name]; there {
			t.Errorf("%s is no setting of the mount", name)
		}
	}
	if !filepath.IsAbs(r.settings["dataset"].(string)) {
		t.Errorf("dataset is %v", r.settings["dataset"])
	}
}

func TestLogs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	c := &console{err: io.Discard}
	log, opened, err := c.openLog(logOptions{level: slog.LevelWarn, file: file, asJSON: true})
	if err != nil {
		t.Fatal(err)
	}
	log.Info("no")
	log.Warn("yes")
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), `"msg":"yes"`) {
		t.Errorf("logged %q, %v", text, err)
	}
}

// fakeMount is a mount whose users stay until they are told to go.
type fakeMount struct {
	readPath string
	busy     bool
	broken   error
	gone     chan struct{}
	said     []string
}

func (m *fakeMount) Wait()            { <-m.gone }
func (m *fakeMount) ReadPath() string { return m.readPath }
func (m *fakeMount) Path() string     { return "/mnt" }

func (m *fakeMount) Unmount() error {
	m.said = append(m.said, "unmount")
	switch {
	case m.broken != nil:
		return m.broken
	case m.busy:
		return fmt.Errorf("unmount: %w", unix.EBUSY)
	}
	close(m.gone)
	return nil
}

func (m *fakeMount) Detach() error {
	m.said = append(m.said, "detach")
	return m.broken
}

func TestAttend(t *testing.T) {
	for _, test := range []struct {
		name    string
		mount   fakeMount
		signals int
		ended   bool // from outside
		closed  bool
		fails   bool
		said    string
	}{
		{name: "unmounted from outside", ended: true, closed: true},
		{name: "one signal", signals: 1, closed: true, said: "unmount"},
		{name: "in use, then detached", mount: fakeMount{busy: true, readPath: "passthrough"}, signals: 2, said: "unmount detach"},
		{name: "in use and read through the daemon", mount: fakeMount{busy: true, readPath: "direct"}, signals: 3, said: "unmount detach"},
		{name: "cannot be unmounted", mount: fakeMount{broken: unix.EPERM}, signals: 1, fails: true, said: "unmount"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := test.mount
			m.gone = make(chan struct{})
			signals := make(chan os.Signal, 3)
			for range test.signals {
				signals <- syscall.SIGTERM
			}
			if test.ended {
				close(m.gone)
			}
			var words bytes.Buffer
			c := &console{err: &words}
			closed, err := c.attend(&m, signals)
			if closed != test.closed || (err != nil) != test.fails {
				t.Errorf("closed %v, error %v", closed, err)
			}
			if got := strings.Join(m.said, " "); got != test.said {
				t.Errorf("did %q, want %q", got, test.said)
			}
			if m.busy && !strings.Contains(words.String(), "/mnt is in use and stays mounted") {
				t.Errorf("said %q", words.String())
			}
		})
	}
}

func TestNotify(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	environment{notifySocket: socket}.notify("READY=1")
	heard := make([]byte, 64)
	n, err := conn.Read(heard)
	if err != nil || string(heard[:n]) != "READY=1" {
		t.Errorf("systemd hears %q, %v", heard[:n], err)
	}
	environment{}.notify("READY=1")
	environment{notifySocket: "/nowhere"}.notify("READY=1")
}

// TestDaemonThatFails: the parent passes on what the child said and how it ended.
func TestDaemonThatFails(t *testing.T) {
	data := photos(t, 1)
	for _, test := range []struct {
		args   []string
		status int
		said   string
	}{
		{[]string{"mount", "--daemon", data, "/nowhere/mnt"}, statusFailed, "batchfs: error: mountpoint /nowhere/mnt: no such file or directory\nbatchfs: hint: mkdir -p /nowhere/mnt\n"},
		{[]string{"mount", data, t.TempDir(), "--shards=3", "--daemon"}, statusUsage, "batchfs: error: --shards must be at most the number of samples, 2"},
	} {
		got := batchfs(t, test.args...)
		if got.status != test.status || !strings.HasPrefix(got.err, test.said) {
			t.Errorf("%q: status %d, said %q", test.args, got.status, got.err)
		}
	}
	// What is wrong with the command line itself is said without a child.
	if got := batchfs(t, "mount", "--daemon", data, "mnt", "--shards=0"); got.status != statusUsage {
		t.Errorf("status %d: %s", got.status, got.err)
	}
}

func TestEndOfDaemon(t *testing.T) {
	if err := endOf(exec.Command("sh", "-c", "exit 2").Run()); exitStatus(err) != 2 {
		t.Errorf("exit 2 becomes %v", err)
	}
	if err := endOf(exec.Command("sh", "-c", "kill -9 $$").Run()); exitStatus(err) != 1 || !strings.Contains(err.Error(), "killed") {
		t.Errorf("killed becomes %v", err)
	}
	if err := endOf(nil); exitStatus(err) != 1 {
		t.Errorf("an end without a mount becomes %v", err)
	}
}

// TestInterruptedIndexing: a signal before the mount is live ends the command.
func TestInterruptedIndexing(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := run(ctx, []string{"batchfs", "mount", photos(t, 2), t.TempDir()}, io.Discard, io.Discard)
	if exitStatus(err) != statusFailed || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v", err)
	}
}

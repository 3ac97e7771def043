package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/annotation"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/machine"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/pinned"
	"github.com/batchfs/batchfs/shard"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// requested parses a mount command line and returns the request.
func requested(t *testing.T, args ...string) (r mountRequest, err error) {
	t.Helper()
	c := &console{out: io.Discard, err: io.Discard, env: readEnvironment(func(string) (string, bool) { return "", false }, 0), machine: machineOf(map[string]string{"proc/meminfo": "MemTotal: 4194304 kB\nMemAvailable: 1024 kB\n"})}
	f := &flagSet{}
	q := newMountRequest(c, f)
	if args, err = parse(f, args...); err != nil {
		return r, err
	}
	if err = f.arguments("mount", args, "DATASET", "MOUNTPOINT"); err == nil {
		err = f.finish(args)
	}
	return *q, err
}

// TestNoCacheAutomatically: --cache-policy none goes with the default size and with 0.
func TestNoCacheAutomatically(t *testing.T) {
	for _, size := range []string{"auto", "0"} {
		r, err := requested(t, "photos", "mnt", "--cache-policy", "none", "--cache-size", size)
		if err != nil || r.engine.CachePolicy != cache.None {
			t.Errorf("%s: %v, %v", size, r.engine.CachePolicy, err)
		}
	}
}

// TestMountErrors: the hint fits the system's error.
func TestMountErrors(t *testing.T) {
	for _, test := range []struct {
		readPath   string
		err        error
		says, hint string
	}{
		{"passthrough", fmt.Errorf("passthrough is unavailable: %w", unix.EPERM), "passthrough is unavailable: operation not permitted", "passthrough needs CAP_SYS_ADMIN"},
		{"auto", fusefs.ErrAllowOther, fusefs.ErrAllowOther.Error(), "echo user_allow_other"},
		{"auto", fusefs.ErrNoFusermount, fusefs.ErrNoFusermount.Error(), "sudo apt-get install fuse3"},
	} {
		err := mountError(test.readPath, test.err)
		if err.Error() != test.says || !strings.HasPrefix(hintOf(err), test.hint) || hintOf(err) == "" {
			t.Errorf("%v: says %q, and the hint %q", test.err, err, hintOf(err))
		}
	}
}

// logged returns what say writes to a mount's log.
func logged(t *testing.T, o logOptions, say func(*mountLog)) string {
	t.Helper()
	var words bytes.Buffer
	log, err := (&console{err: &words}).openLog(o)
	testkit.Must(t, err)
	say(log)
	log.close()
	return words.String()
}

// TestWarnOfNothing: a mount without batches works, but with a warning.
func TestWarnOfNothing(t *testing.T) {
	a, err := (&console{err: io.Discard}).openAsked(t.Context(), photos(t, 5), dataset.Options{Workers: 1, Logger: quiet}, annotation.Options{})
	testkit.Must(t, err)
	defer a.Close()
	ds := a.Images
	for _, test := range []struct{ flags, want string }{
		{"--batch-size 5 --last-batch drop", ""},
		{"--batch-size 6 --last-batch drop", "batchfs: every epoch has 0 batches: a shard has 5 samples, fewer than --batch-size 6, and --last-batch drop drops them\n" +
			"batchfs: hint: use a smaller --batch-size, or --last-batch fill\n"},
		{"--batch-size 6", ""},
		{"--batch-size 6 --last-batch partial", ""},
	} {
		r, err := requested(t, append([]string{"photos", "mnt", "--shards", "2", "--workers", "1", "--memory-limit", "64MiB"}, strings.Fields(test.flags)...)...)
		testkit.Must(t, err)
		e, err := engine.New(ds, r.engine)
		testkit.Must(t, err)
		words := logged(t, logOptions{}, func(log *mountLog) {
			r.log = log
			r.warnOfNothing(ds.Len(), e)
		})
		if words != test.want {
			t.Errorf("%s: says %q, want %q", test.flags, words, test.want)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWarnOfRepeats: if memory is too short for the compressed pages of its dataset, a mount says
// how often they will be read, and what to do. With enough memory it says nothing.
func TestWarnOfRepeats(t *testing.T) {
	a, err := (&console{err: io.Discard}).openAsked(t.Context(), "../../internal/archive/testdata/jpeg.mds.zstd", dataset.Options{Workers: 1, Logger: quiet, CacheDir: t.TempDir()}, annotation.Options{})
	testkit.Must(t, err)
	defer a.Close()
	ds := a.Images
	said := func(r mountRequest, repeats engine.Repeats) string {
		return logged(t, logOptions{}, func(log *mountLog) {
			r.log = log
			r.warnOfRepeats(repeats)
		})
	}
	for _, test := range []struct {
		flags string
		want  []string
	}{
		{"--memory-limit 256MiB", nil},
		{"--memory-limit 256MiB --shuffle", nil},
		{"--memory-limit 26MiB", []string{"compressed pages", fmt.Sprintf(" %d times over", ds.Len()), "the memory limit leaves 0 B", "hint: convert the dataset once (batchfs convert)\n"}},
		{"--memory-limit 26MiB --shuffle", []string{fmt.Sprintf(" %d times over", ds.Len()), "batchfs convert"}},
		{"--memory-limit 256MiB --shuffle --cache-size 255MiB", []string{fmt.Sprintf(" %d times over", ds.Len())}},
	} {
		r, err := requested(t, append([]string{"photos", "mnt", "--workers", "1", "--batch-size", "2"}, strings.Fields(test.flags)...)...)
		testkit.Must(t, err)
		budget, err := engine.NewBudget(ds, r.engine)
		testkit.Must(t, err)
		words := said(r, budget.Repeats())
		for _, want := range test.want {
			if !strings.Contains(words, want) {
				t.Errorf("%s: says %q, without %q", test.flags, words, want)
			}
		}
		if len(test.want) == 0 && words != "" {
			t.Errorf("%s: says %q", test.flags, words)
		}
	}
	words := said(mountRequest{}, engine.Repeats{Factor: 89.6, Needs: 3 << 30, Memory: 1 << 30, Window: 4})
	want := "batchfs: an epoch may read the compressed pages of the dataset 90 times over: unpacked, those in use take 3.0 GiB, and the memory limit leaves 1.0 GiB for them\n" +
		"batchfs: hint: convert the dataset once (batchfs convert), or use --shuffle window=4, whose pages fit\n"
	if words != want {
		t.Errorf("says %q, want %q", words, want)
	}
}

// anyCPU returns a CPU that this process may use.
func anyCPU(t *testing.T) int {
	t.Helper()
	allowed, err := machine.CurrentCPUs()
	testkit.Must(t, err)
	return allowed[0]
}

func TestMountDefaults(t *testing.T) {
	r, err := requested(t, "photos", "mnt")
	testkit.Must(t, err)
	want := engine.Options{
		Options: catalog.Options{
			Config: shard.Config{Shards: 1, BatchSize: 32, PadLastBatch: true, LastBatch: shard.Fill}, Epochs: maxEpochs,
			Decoding:  decode.Options{MaxPixels: 1 << 28},
			Transform: resample.Options{CropArea: [2]float64{0.08, 1}, CropRatio: [2]float64{3. / 4, 4. / 3}}, PadMultiple: 1,
		},
		Workers: 4, CPUs: 4, BatchWorkers: 3, PrefetchDepth: 2, MemoryLimit: 512 << 10, MemoryWait: 10 * time.Second, Memory: pinned.DefaultPolicy(), Lock: true,
		CacheSize: engine.AutoCache, CachePolicy: cache.Constant, Entries: decode.EntryRows,
	}
	r.engine.Logger = nil
	if diff := cmp.Diff(want, r.engine); diff != "" {
		t.Errorf("engine: %s", diff)
	}
	tree := fusefs.Options{
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), FileMode: 0o444, DirMode: 0o555, ReadPath: "auto", Epochs: 100,
		List: []layout.Form{layout.NHWCForm, layout.Labels, layout.JSON}, ListTargets: true,
	}
	r.tree.Logger = nil
	if diff := cmp.Diff(tree, r.tree); diff != "" {
		t.Errorf("tree: %s", diff)
	}
	if r.dataset != "photos" || r.mountpoint != "mnt" || r.daemon || r.child || r.source.Workers != 4 {
		t.Errorf("got %+v", r)
	}
}

// TestRequestsOfAMount: the memory limit bounds the requests to a store, also those of indexing,
// unless flags say how many there are.
func TestRequestsOfAMount(t *testing.T) {
	for _, c := range []struct {
		flags                   string
		workers, loads, atATime int
	}{
		{"--memory-limit 50MiB", 100, 100, 100},
		{"--memory-limit 2GiB", 256, 1024, 1024},
		{"--memory-limit 50MiB --loads 10", 100, 10, 100},
		{"--memory-limit 50MiB --workers 3", 3, 100, 100},
	} {
		r, err := requested(t, append(strings.Fields(c.flags), "s3://photos/train", "mnt")...)
		testkit.Must(t, err)
		if s := r.source; s.Workers != c.workers || r.engine.Loads != c.loads || s.Store.MaxRequests != c.atATime {
			t.Errorf("%s: %d workers, %d loads, %d requests", c.flags, s.Workers, r.engine.Loads, s.Store.MaxRequests)
		}
	}
}

func TestMountFlags(t *testing.T) {
	cpu := anyCPU(t)
	r, err := requested(t, "--shards", "8", "photos", "--batch-size=256", "mnt", "--shuffle", "--seed", "18446744073709551615",
		"--stick-to-shard", "--pad-last-batch=false", "--last-batch", "drop", "--size", "224x320", "--color", "gray", "--fill", "127",
		"--layout", "nchw", "--epochs", "3", "--list", ".npy,json", "--prefetch-queue-depth", "5", "--workers", "7", "--memory-limit", "2GiB",
		"--on-error", "zero", "--max-pixels", "1000", "--ignore-orientation", "--jpeg-scaling=off", "--allow-outside", "--read-path", "direct", "--allow-other",
		"--uid", "1000", "--gid", "100", "--file-mode", "0640", "--dir-mode", "750", "--log-level", "error", "-o", "batch_workers=3",
		"--resize", "random-resized-crop", "--crop-area", "0.1,0.9", "--crop-ratio", "1, 3/2", "--flip", "1/2", "--dtype", "bfloat16", "--mean", "118.5",
		"--std", "58", "--bytes-per-sample", "batch=150528, scratch=1MiB", "--cache-size", "1GiB", "--cache-policy", "static", "--local-shards", "2-3", "--io", "buffered", "--max-read-bandwidth", "1MB", "--affinity", strings.Repeat(fmt.Sprintf("%d,", cpu), 6)+fmt.Sprint(cpu))
	testkit.Must(t, err)
	want := engine.Options{
		Options: catalog.Options{
			Config: shard.Config{Shards: 8, BatchSize: 256, Shuffle: true, Seed: 1<<64 - 1, StickToShard: true, LastBatch: shard.Drop}, Epochs: maxEpochs,
			Transform: resample.Options{
				Mode: resample.RandomResizedCrop, Height: 224, Width: 320, CropArea: [2]float64{0.1, 0.9}, CropRatio: [2]float64{1, 1.5}, Flip: 0.5,
			},
			Decoding: decode.Options{Color: decode.Gray, IgnoreOrientation: true, MaxPixels: 1000}, PadMultiple: 1,
			DType: layout.BFloat16, Normalize: layout.Normalization{Mean: []float64{118.5}, Std: []float64{58}},
			Fill: 127, Layout: layout.NCHW, FullJPEGs: true, OnError: engine.Zero,
		},
		Workers: 7, CPUs: 4, BatchWorkers: 3, PrefetchDepth: 5, MemoryLimit: 2 << 30, MemoryWait: 10 * time.Second,
		Memory: pinned.DefaultPolicy(), Lock: true, Hints: engine.Hints{Batch: 150528, Scratch: 1 << 20},
		CacheSize: 1 << 30, CachePolicy: cache.Static, LocalFrom: 2, LocalTo: 4, Entries: decode.EntryRows,
		Affinity: slices.Repeat([]machine.CPUs{{cpu}}, 7),
	}
	r.engine.Logger = nil
	if diff := cmp.Diff(want, r.engine); diff != "" {
		t.Errorf("engine: %s", diff)
	}
	tree := fusefs.Options{
		AllowOther: true, UID: 1000, GID: 100, FileMode: 0o640, DirMode: 0o750, ReadPath: "direct", Epochs: 3,
		List: []layout.Form{layout.NPY, layout.JSON},
	}
	r.tree.Logger = nil
	if diff := cmp.Diff(tree, r.tree); diff != "" {
		t.Errorf("tree: %s", diff)
	}
	if !r.source.AllowOutside {
		t.Error("--allow-outside was lost")
	}
}

// TestListFollowsLayout: the tensor form that is listed has the shape that .json states.
func TestListFollowsLayout(t *testing.T) {
	for flags, want := range map[string][]layout.Form{
		"--layout nhwc": {layout.NHWCForm, layout.Labels, layout.JSON}, "--layout nchw": {layout.NCHWForm, layout.Labels, layout.JSON},
		"--layout nchw --list npy": {layout.NPY}, "--layout nchw -o list=nhwc": {layout.NHWCForm},
	} {
		r, err := requested(t, append(strings.Fields(flags), "photos", "mnt")...)
		if err != nil || !slices.Equal(r.tree.List, want) {
			t.Errorf("%s: %v, %v", flags, r.tree.List, err)
		}
	}
}

// TestMountSettingsAreThoseInUse: settings without a flag are listed with the values that the mount
// uses, or in words.
func TestMountSettingsAreThoseInUse(t *testing.T) {
	for _, args := range [][]string{
		{"--daemon"}, {"--dtype", "float32", "--normalize", "imagenet", "--workers", "64", "--memory-limit", "300MiB", "--shuffle"},
		{"--partition", "elastic", "--global-batch", "12", "--world-size", "3"},
	} {
		r, err := requested(t, append([]string{"photos", "mnt"}, args...)...)
		testkit.Must(t, err)
		flags := r.settings["flags"].(map[string]any)
		for name, value := range flags {
			if value == "" {
				t.Errorf("%v: %s is empty", args, name)
			}
		}
		used := map[string]any{
			"workers": r.engine.Workers, "batch-workers": r.engine.BatchWorkers, "prefetch-queue-depth": r.engine.PrefetchDepth,
			"memory-limit": r.engine.MemoryLimit, "batch-size": r.engine.BatchSize, "shards": r.engine.Shards, "mean": "0", "std": "1",
			"shuffle": r.engine.Shuffle, "help": nil, "daemon": nil, "child": nil, "o": nil, // these are not settings of the mount
		}
		if n := r.engine.Normalize; n.Mean != nil {
			used["mean"], used["std"] = n.Mean, n.Std
		}
		for name, want := range used {
			if diff := cmp.Diff(want, flags[name]); diff != "" {
				t.Errorf("%v: %s: %s", args, name, diff)
			}
		}
		if !filepath.IsAbs(r.settings["dataset"].(string)) {
			t.Errorf("%v: dataset is %v", args, r.settings["dataset"])
		}
	}
}

// TestPaddingIsSaid: how much of an epoch repeats samples, of all shards together.
func TestPaddingIsSaid(t *testing.T) {
	for _, test := range []struct {
		samples int64
		config  shard.Config
		want    string
	}{
		{360, shard.Config{Shards: 1, BatchSize: 384, PadLastBatch: true}, "; 1 batch, 24 of 384 slots are padding"},
		{384, shard.Config{Shards: 1, BatchSize: 384, PadLastBatch: true}, ""},
		{10, shard.Config{Shards: 3, BatchSize: 2, PadLastBatch: true}, "; 6 batches, 2 of 12 slots are padding"},
		{10, shard.Config{Shards: 3, BatchSize: 2}, "; without padding, batches read on into the next epoch: an epoch may have samples twice, and lack others"},
		{10, shard.Config{Shards: 3, BatchSize: 2, LastBatch: shard.Partial}, "; without padding, batches read on into the next epoch: an epoch may have samples twice, and lack others"},
		{12, shard.Config{Shards: 3, BatchSize: 2}, ""},
		{10, shard.Config{Shards: 1, BatchSize: 4, PadLastBatch: true, LastBatch: shard.Partial}, ""},
		{10, shard.Config{Shards: 1, BatchSize: 4, PadLastBatch: true, LastBatch: shard.Drop}, ""},
	} {
		test.config.Samples = test.samples
		p, err := shard.New(test.config)
		testkit.Must(t, err)
		if got := padding(p); got != test.want {
			t.Errorf("%+v: says %q, not %q", test.config, got, test.want)
		}
	}
}

func TestLogs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	c := &console{err: io.Discard}
	log, err := c.openLog(logOptions{level: slog.LevelWarn, file: file, asJSON: true})
	testkit.Must(t, err)
	log.Info("no")
	log.Warn("yes")
	log.close()
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), `"msg":"yes"`) {
		t.Errorf("logged %q, %v", text, err)
	}
}

// TestTell: a mount's messages are like those of commands, unless standard error holds JSON.
func TestTell(t *testing.T) {
	for asJSON, want := range map[bool]string{
		false: "batchfs: gone\nbatchfs: hint: look\nbatchfs: done\n",
		true:  `{"level":"WARN","msg":"gone","hint":"look"}` + "\n" + `{"level":"WARN","msg":"done"}` + "\n",
	} {
		words := logged(t, logOptions{asJSON: asJSON}, func(log *mountLog) {
			log.warn("gone", "look")
			log.warn("done", "")
		})
		if got := logTime.ReplaceAllString(words, ""); got != want {
			t.Errorf("JSON %v: said %q, want %q", asJSON, got, want)
		}
	}
}

var logTime = regexp.MustCompile(`time=\S+ |"time":"[^"]+",`)

func TestNotify(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	testkit.Must(t, err)
	defer conn.Close()
	if !(environment{notifySocket: socket}).notify("READY=1") {
		t.Error("systemd listens in vain")
	}
	heard := make([]byte, 64)
	n, err := conn.Read(heard)
	if err != nil || string(heard[:n]) != "READY=1" {
		t.Errorf("systemd hears %q, %v", heard[:n], err)
	}
	if !(environment{}).notify("READY=1") || (environment{notifySocket: "/nowhere"}).notify("READY=1") {
		t.Error("who asked and does not listen is not told from who did not ask")
	}
}

// TestDaemonThatFails: the parent passes on the child's message and exit status.
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
	// Usage errors are reported without starting a child.
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
}

func TestSplitOptions(t *testing.T) {
	for in, want := range map[string][]string{
		"":                        {""},
		"a":                       {"a"},
		"a,b=c":                   {"a", "b=c"},
		`list=nhwc\,json,b`:       {"list=nhwc,json", "b"},
		`list="nhwc,json",b`:      {"list=nhwc,json", "b"},
		`log-file=/var/log/a\\b`:  {`log-file=/var/log/a\b`},
		"a,,b":                    {"a", "", "b"},
		`comment="unclosed,quote`: {"comment=unclosed,quote"},
	} {
		if diff := cmp.Diff(want, splitOptions(in)); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
}

func TestMountHelper(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     string // the equivalent command line
	}{
		{"from fstab", "mount.batchfs /data /mnt -o rw,shuffle,seed=7", "mount --daemon -o rw,shuffle,seed=7 -- /data /mnt"},
		{"options first", "/sbin/mount.fuse.batchfs -o shuffle /data /mnt", "mount --daemon -o shuffle -- /data /mnt"},
		{"all letters", "mount.batchfs /data /mnt -s -n -v -o shuffle -t fuse.batchfs -N 7", "mount --daemon -o shuffle -- /data /mnt"},
		{"twice", "mount.batchfs /data /mnt -o shuffle -o seed=1", "mount --daemon -o shuffle -o seed=1 -- /data /mnt"},
		{"by mount.fuse", "batchfs /data /mnt -o ro,shuffle", "mount --daemon -o ro,shuffle -- /data /mnt"},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := strings.Fields(test.in)
			if !asMountHelper(args) {
				t.Fatal("is not recognised")
			}
			words, err := mountWords(args[1:])
			if got := strings.Join(words, " "); got != test.want || err != nil {
				t.Errorf("got %q, want %q; %v", got, test.want, err)
			}
			r, err := requested(t, words[1:]...)
			if err != nil || r.dataset != "/data" || r.mountpoint != "/mnt" || !r.daemon {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestMountFake: mount -f does nothing.
func TestMountFake(t *testing.T) {
	if err := run(t.Context(), strings.Fields("mount.batchfs /nowhere/data /nowhere/mnt -f"), io.Discard, io.Discard); err != nil {
		t.Error(err)
	}
}

func TestMountHelperRefuses(t *testing.T) {
	for in, message := range map[string]string{
		"/data":                       "mount.batchfs takes a dataset and a mountpoint, but got 1 argument",
		"/data /mnt /more":            "mount.batchfs takes a dataset and a mountpoint, but got 3 arguments",
		"/data /mnt -o":               "-o needs a value",
		"/data /mnt -x":               "unknown flag -x",
		"/data /mnt -o unheard_of=on": "unknown option -o unheard_of",
	} {
		words, err := mountWords(strings.Fields(in))
		if err == nil {
			_, err = requested(t, words[1:]...)
		}
		if err == nil || err.Error() != message || exitStatus(err) != statusUsage {
			t.Errorf("%q: got %v, want %q", in, err, message)
		}
	}
	for _, not := range []string{"batchfs", "batchfs mount", "batchfs mount /a /b", "batchfs /only", "batchfs /data index"} {
		if asMountHelper(strings.Fields(not)) {
			t.Errorf("%q is taken for a call by mount(8)", not)
		}
	}
}

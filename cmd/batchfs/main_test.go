package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/sample"
)

// TestMain lets the test binary act as batchfs, for commands that run themselves again. go
// test passes flags that begin with -test.; batchfs never does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
	}
	os.Exit(m.Run())
}

// outcome is what a user sees of a command.
type outcome struct {
	out, err string
	status   int
}

// run executes one command line without signal handling.
func run(ctx context.Context, args []string, out, errOut io.Writer) error {
	c := &console{out: out, err: errOut, env: readEnvironment(os.LookupEnv, os.Getuid()), machine: thisHost(), signals: &signals{}}
	return c.run(ctx, args)
}

// batchfs runs one command line in this process.
func batchfs(t *testing.T, args ...string) outcome {
	t.Helper()
	return batchfsIn(t, filepath.Join(t.TempDir(), "cache"), args...)
}

// batchfsIn is batchfs with a cache directory.
func batchfsIn(t *testing.T, cache string, args ...string) outcome {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", cache)
	var out, errOut bytes.Buffer
	err := run(context.Background(), append([]string{"batchfs"}, args...), &out, &errOut)
	report(&errOut, err)
	return outcome{out.String(), errOut.String(), exitStatus(err)}
}

// photos makes a dataset of two classes with n images each, 3x5 pixels.
func photos(t *testing.T, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "photos")
	for _, class := range []string{"a", "b"} {
		for i := range n {
			writeImage(t, filepath.Join(dir, class, string(rune('0'+i))+".png"), 3, 5)
		}
	}
	return dir
}

func writeImage(t *testing.T, path string, height, width int) {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			img.Set(x, y, color.RGBA{uint8(x), uint8(y), 7, 255})
		}
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, img); err != nil {
		t.Fatal(err)
	}
	save(t, path, buf.Bytes())
}

func TestEveryCommandHelps(t *testing.T) {
	for _, c := range newApp(&console{}, true).Commands {
		got := batchfs(t, c.Name, "--help")
		if got.status != statusDone || got.err != "" {
			t.Errorf("%s --help: status %d, %s", c.Name, got.status, got.err)
		}
		for _, want := range []string{"batchfs " + c.Name, "Examples:", "Usage:", c.Description} {
			if !strings.Contains(got.out, want) {
				t.Errorf("%s --help does not say %q", c.Name, want)
			}
		}
		all := batchfs(t, c.Name, "--help-all")
		if all.status != statusDone || !strings.Contains(all.out, "Usage:") {
			t.Errorf("%s --help-all: status %d, %s%s", c.Name, all.status, all.out, all.err)
		}
		for line := range strings.Lines(got.out + all.out) {
			if len(line) > len("\n")+79 {
				t.Errorf("%s: longer than 79 columns: %s", c.Name, line)
			}
		}
		if !strings.Contains(batchfs(t, "--help").out, c.Usage) {
			t.Errorf("--help does not list %s", c.Name)
		}
	}
}

// TestHelpOfMount: the help shows the flags that most people set, the rest on request, and
// every default, zeros included.
func TestHelpOfMount(t *testing.T) {
	few, all := batchfs(t, "mount", "--help").out, batchfs(t, "mount", "--help-all").out
	for text, inBoth := range map[string]bool{
		"--seed N": true, "(default: 0)": true, "--batch-size": true, "--max-pixels": false, "--memory-wait": false, "--options LIST, -o LIST": false,
	} {
		if !strings.Contains(all, text) || strings.Contains(few, text) != inBoth {
			t.Errorf("%q: --help %v, --help-all %v", text, strings.Contains(few, text), strings.Contains(all, text))
		}
	}
	if n := strings.Count(few, "\n  --"); n > 19 || !strings.Contains(few, "more flags: batchfs mount --help-all\n") {
		t.Errorf("--help shows %d flags:\n%s", n, few)
	}
	if strings.Contains(all, "more flags") {
		t.Errorf("--help-all hides some")
	}
}

// TestCompletions: what the scripts are told to offer, and that shells can read the scripts.
func TestCompletions(t *testing.T) {
	for line, want := range map[string]string{
		"mount --resize":        "none stretch not-larger not-smaller center-crop random-resized-crop",
		"mount --resize =":      "none stretch not-larger not-smaller center-crop random-resized-crop", // in bash
		"mount --resize=not":    "--resize=none --resize=stretch --resize=not-larger --resize=not-smaller --resize=center-crop --resize=random-resized-crop",
		"mount --last-batch":    "fill partial drop",
		"bench a b --dtype":     "uint8 float16 bfloat16 float32",
		"mount --cache-size":    "auto",
		"mount --seed":          "", // not even files
		"mount --log-file":      "", // files
		"mount photos":          "",
		"mount --ba":            "--batch-size --batch-workers",
		"mount --shuffle --ful": "",
		"mount --ready":         "", // internal
		"completion":            "bash zsh fish",
		"--vers":                "--version",
		"":                      "mount umount index plan verify profile convert unpack gen bench stats why doctor completion",
	} {
		self := exec.Command(os.Args[0], append(strings.Fields(line), completionFlag)...) // package cli reads os.Args
		out, err := self.CombinedOutput()
		if words := strings.Join(strings.Fields(string(out)), " "); words != want || err != nil {
			t.Errorf("%s: completes with %s, want %s; %v", line, words, want, err)
		}
		if files := len(out) == 0; files != slices.Contains([]string{"mount --log-file", "mount photos", "mount --shuffle --ful", "mount --ready"}, line) {
			t.Errorf("%s: completes with files: %v", line, files)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		got := batchfs(t, "completion", shell)
		if got.status != statusDone || !strings.Contains(got.out, completionFlag) {
			t.Errorf("%s: status %d: %s", shell, got.status, got.out)
		}
		program, err := exec.LookPath(shell)
		if err != nil {
			continue // not installed here
		}
		check := exec.Command(program, "-n")
		check.Stdin = strings.NewReader(got.out)
		if text, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", shell, err, text)
		}
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if err := run(context.Background(), []string{"batchfs", "completion", "bash"}, full, io.Discard); exitStatus(err) != statusFailed {
		t.Errorf("a script that could not be written: %v", err)
	}
	if got := batchfs(t, "completion", "tcsh"); got.status != statusUsage || !strings.Contains(got.err, "SHELL must be bash, zsh or fish") {
		t.Errorf("tcsh: status %d: %s", got.status, got.err)
	}
}

func TestWithoutCommand(t *testing.T) {
	if got := batchfs(t); got.status != statusUsage || !strings.Contains(got.out, "Commands:") {
		t.Errorf("got status %d and %q", got.status, got.out)
	}
	if got := batchfs(t, "--version"); got.status != statusDone || !strings.HasPrefix(got.out, "batchfs version v") {
		t.Errorf("got status %d and %q", got.status, got.out)
	}
	if got := batchfs(t, "help", "mount"); got.status != statusDone || !strings.Contains(got.out, "--batch-size") {
		t.Errorf("got status %d and %q", got.status, got.out)
	}
}

// TestWrongUsage checks that every refusal has status 2 and names the flag, the rule and
// the value.
func TestWrongUsage(t *testing.T) {
	mount := func(flags ...string) []string {
		return append([]string{"mount", "/nowhere/photos", "/nowhere/mnt"}, flags...)
	}
	elastic := func(flags ...string) []string {
		return append(mount("--partition", "elastic", "--global-batch", "24", "--world-size", "6"), flags...)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"mout"}, `there is no command "mout"`},
		{[]string{"--shuffle"}, "unknown flag --shuffle"},
		{[]string{"--help=maybe"}, `invalid boolean value "maybe" for -help`},
		{mount("--help=maybe"), `invalid boolean value "maybe" for -help`},
		{[]string{"mount"}, "DATASET is missing"},
		{[]string{"mount", "a"}, "MOUNTPOINT is missing"},
		{[]string{"mount", "a", "b", "c"}, `too many arguments at "c": mount takes DATASET and MOUNTPOINT`},
		{[]string{"mount", "", "b"}, "DATASET must not be empty"},
		{[]string{"umount"}, "MOUNTPOINT is missing"},
		{[]string{"doctor", "me"}, `too many arguments at "me": doctor takes no arguments`},
		{mount("--shards", "0"), `--shards must be a whole number, at least 1, but is "0"`},
		{mount("--shards", "-3"), `--shards must be a whole number, at least 1, but is "-3"`},
		{mount("--shards", "two"), `--shards must be a whole number, at least 1, but is "two"`},
		{mount("--shards=1.5"), `--shards must be a whole number, at least 1, but is "1.5"`},
		{mount("--shards="), `--shards must be a whole number, at least 1, but is ""`},
		{mount("--batch-size", "0"), `--batch-size must be a whole number from 1 to 1048576, but is "0"`},
		{mount("--batch-size", "99999999999999999999"), `--batch-size must be a whole number from 1 to 1048576, but is "99999999999999999999"`},
		{mount("--seed", "-1"), `--seed must be a whole number from 0 to 2^64-1, but is "-1"`},
		{mount("--seed", "18446744073709551616"), `--seed must be a whole number from 0 to 2^64-1, but is "18446744073709551616"`},
		{mount("--shuffle=maybe"), `--shuffle must be true, false, or window=W with W at least 1, as in window=16, but is "maybe"`},
		{mount("--shuffle=window=0"), `--shuffle must be true, false, or window=W with W at least 1, as in window=16, but is "window=0"`},
		{mount("--shuffle", "window=4", "--partition", "elastic"), "--partition elastic needs --global-batch and --world-size, as in --global-batch 1024 --world-size 8"},
		{mount("--partition", "elastic", "--global-batch", "8"), "--partition elastic needs --global-batch and --world-size"},
		{mount("--global-batch", "8"), "--global-batch is for --partition elastic"},
		{mount("--rank", "0"), "--rank is for --partition elastic"},
		{mount("--placement", "local"), "--placement is for --partition elastic"},
		{mount("--partition", "elastic", "--shards", "2"), "--shards is for --partition ranges; elastic has --world-size and --global-batch"},
		{elastic("--batch-size", "4"), "--batch-size is for --partition ranges; elastic has --world-size and --global-batch"},
		{elastic("--stick-to-shard"), "--stick-to-shard is for --partition ranges; elastic has --world-size and --global-batch"},
		{elastic("--pad-last-batch=false"), "--pad-last-batch=false is for --partition ranges: a step never reads on into the next epoch"},
		{elastic("--world-size", "5"), `--world-size must be a divisor of --global-batch 24, so that all ranks get equally many samples, such as 4, but is "5"`},
		{elastic("--world-size", "48"), `--world-size must be a divisor of --global-batch 24, so that all ranks get equally many samples, such as 24, but is "48"`},
		{elastic("--global-batch", "41943042"), `--global-batch must be at most 1048576 for each rank, but is "41943042"`},
		{elastic("--rank", "6"), `--rank must be below --world-size, which is 6, but is "6"`},
		{elastic("--rank", "-1"), `--rank must be a whole number, at least 0, but is "-1"`},
		{elastic("--rank", "1", "--local-shards", "1-2"), "--rank and --local-shards exclude each other: both say which shards are read here"},
		{elastic("--nodes", "2"), "--nodes is for --placement local"},
		{elastic("--nodes", "4", "--placement", "local", "--shuffle"), `--nodes must be a divisor of --world-size 6, so that all nodes have equally many ranks, but is "4"`},
		{elastic("--placement", "local"), "--placement local needs --shuffle: in order, or in a window, a step has the samples of a few nodes only"},
		{elastic("--placement", "local", "--shuffle=window=4"), "--placement local needs --shuffle"},
		{[]string{"plan", "--samples", "5", "--partition", "elastic", "--global-batch", "6", "--world-size", "6"}, `--world-size must be at most the number of samples, 5, but is "6"`},
		{mount("--pad-last-batch=2"), `--pad-last-batch must be true or false, but is "2"`},
		{mount("--last-batch", "keep"), `--last-batch must be fill, partial or drop, but is "keep"`},
		{mount("--resize", "bigger"), `--resize must be none, stretch, not-larger, not-smaller, center-crop or random-resized-crop, but is "bigger"`},
		{mount("--resize", "stretch"), "--resize stretch needs --size, as in --size 224x224"},
		{mount("--resize", "center-crop", "--size", "224x224"), "--resize center-crop needs --resize-to: the short side of an image, before the middle is cut out"},
		{mount("--resize", "center-crop", "--size", "224x260", "--resize-to", "256"), `--resize-to must be at least 260, the larger side of --size, but is "256"`},
		{mount("--resize", "center-crop", "--resize-to", "256"), "--resize center-crop needs --size, as in --size 224x224"},
		{mount("--resize", "not-smaller", "--size", "224x224", "--resize-to", "256"), "--resize-to is for --resize center-crop, not not-smaller"},
		{mount("--resize-to", "0"), `--resize-to must be a whole number from 1 to 1048576, but is "0"`},
		{mount("--crop-area", "0.1,1"), "--crop-area is for --resize random-resized-crop, not none"},
		{mount("--crop-area", "0,1"), `--crop-area must be two numbers above 0 and at most 1, the smaller first, as in 0.08,1, but is "0,1"`},
		{mount("--crop-area", "0.5"), `--crop-area must be two numbers above 0 and at most 1, the smaller first, as in 0.08,1, but is "0.5"`},
		{mount("--crop-ratio", "4/3,3/4"), `--crop-ratio must be two numbers above 0, the smaller first, as in 3/4,4/3, but is "4/3,3/4"`},
		{mount("--crop-ratio", "1/0,2"), `--crop-ratio must be two numbers above 0, the smaller first, as in 3/4,4/3, but is "1/0,2"`},
		{mount("--flip", "2"), `--flip must be a number from 0 to 1, but is "2"`},
		{mount("--flip", "nan"), `--flip must be a number from 0 to 1, but is "nan"`},
		{mount("--pad-multiple", "0"), `--pad-multiple must be a whole number from 1 to 65536, but is "0"`},
		{mount("--pad-multiple", "8", "--size", "9x9"), "--pad-multiple is for batches as large as their images; --size is exact"},
		{mount("--mean", "1,2", "--dtype", "float32"), `--mean must be one number per channel, 3, separated by commas, but is "1,2"`},
		{mount("--mean", "0.485,0.456,0.406", "--dtype", "float32"), `--mean must be in units of 0..255, such as 123.675 for 0.485, but is "0.485,0.456,0.406"`},
		{mount("--std", "0.5,0.5,0.5", "--mean", "127.5,127.5,127.5", "--dtype", "float32"), `--std must be in units of 0..255, such as 123.675 for 0.485, but is "0.5,0.5,0.5"`},
		{mount("--std", "1,0,1", "--dtype", "float32"), `--std must be above 0, but is "1,0,1"`},
		{mount("--std", "1,1,x", "--dtype", "float32"), `--std must be one number per channel, separated by commas, but is "1,1,x"`},
		{mount("--normalize", "imagenet"), "--mean, --std and --normalize need --dtype float16, bfloat16 or float32: uint8 holds the pixels as they are"},
		{mount("--normalize", "imagenet", "--dtype", "float16", "--mean", "1,2,3"), "--normalize imagenet has its own mean and std: leave out --mean and --std"},
		{mount("--normalize", "imagenet", "--dtype", "float16", "--color", "gray"), "--normalize imagenet is for three channels, not for --color gray"},
		{mount("--affinity", "0,x"), `--affinity must be a list of CPU numbers, as in 3,5,6,10, or gpu, but in "0,x" entry 2`},
		{mount("--bytes-per-sample", "much"), `--bytes-per-sample must be a size in bytes, or batch=SIZE,input=SIZE,scratch=SIZE, but is "much"`},
		{mount("--bytes-per-sample", "cash=4"), `--bytes-per-sample must be a size in bytes, or batch=SIZE,input=SIZE,scratch=SIZE, but is "cash=4"`},
		{mount("--size", "0x5"), `--size must be a height and a width, each from 1 to 1048576, as in 375x500, but is "0x5"`},
		{mount("--size", "99999999x99999999"), `--size must be a height and a width, each from 1 to 1048576, as in 375x500, but is "99999999x99999999"`},
		{mount("--color", "gray", "--mean", "1,2", "--dtype", "float32"), `--mean must be one number per channel, 1, separated by commas, but is "1,2"`},
		{mount("--size", "224"), `--size must be a height and a width, each from 1 to 1048576, as in 375x500, but is "224"`},
		{mount("--color", "cmyk"), `--color must be rgb or gray, but is "cmyk"`},
		{mount("--fill", "256"), `--fill must be a whole number from 0 to 255, but is "256"`},
		{mount("--fill", "-1"), `--fill must be a whole number from 0 to 255, but is "-1"`},
		{mount("--dtype", "float64"), `--dtype must be uint8, float16, bfloat16 or float32, but is "float64"`},
		{mount("--layout", "nhcw"), `--layout must be nhwc or nchw, but is "nhcw"`},
		{mount("--epochs", "0"), `--epochs must be a whole number from 1 to 1000000, but is "0"`},
		{mount("--epochs", "1000001"), `--epochs must be a whole number from 1 to 1000000, but is "1000001"`},
		{mount("--list", "nhwc,tiff"), `--list must be a list of nhwc, nchw, npy, safetensors, valid.npy, labels.npy, ids.npy, sizes.npy, json or png, but is "nhwc,tiff"`},
		{mount("--list", ""), `--list must be a list of`},
		{mount("--prefetch-queue-depth", "-1"), `--prefetch-queue-depth must be a whole number from 0 to 1024, but is "-1"`},
		{mount("--workers", "0"), `--workers must be a whole number from 1 to 4096, but is "0"`},
		{mount("--batch-workers", "0"), `--batch-workers must be a whole number from 1 to 1024, but is "0"`},
		{mount("--memory-limit", "12q"), `--memory-limit must be a size in bytes above 0, such as 512MiB or 8GiB, but is "12q"`},
		{mount("--memory-limit", "0"), `--memory-limit must be a size in bytes above 0, such as 512MiB or 8GiB, but is "0"`},
		{mount("--on-error", "ignore"), `--on-error must be fail, replace or zero, but is "ignore"`},
		{mount("--max-pixels", "0"), `--max-pixels must be a whole number, at least 1, but is "0"`},
		{mount("--read-path", "fast"), `--read-path must be auto, passthrough or direct, but is "fast"`},
		{mount("--uid", "-1"), `--uid must be a whole number, at least 0, but is "-1"`},
		{mount("--uid", "root"), `--uid must be a whole number, at least 0, but is "root"`},
		{mount("--gid", "4294967295"), `--gid must be a whole number from 0 to 4294967294, but is "4294967295"`},
		{mount("--shards", "99999999999999999999"), `--shards must be a whole number from 1 to 2147483647, but is "99999999999999999999"`},
		{mount("--shards", "-99999999999999999999"), `--shards must be a whole number, at least 1, but is "-99999999999999999999"`},
		{mount("--file-mode", "999"), `--file-mode must be an octal number up to 0777, but is "999"`},
		{mount("--dir-mode", "01755"), `--dir-mode must be an octal number up to 0777, but is "01755"`},
		{mount("--log-level", "loud"), `--log-level must be debug, info, warn or error, but is "loud"`},
		{mount("--log-format", "xml"), `--log-format must be text or json, but is "xml"`},
		{mount("--batch-size"), "--batch-size needs a value"},
		{mount("--sead", "7"), "unknown flag --sead"},
		{mount("--cache-size", "some"), `--cache-size must be a size in bytes, such as 512MiB or 8GiB, auto or 0, but is "some"`},
		{mount("--cache-policy", "lru"), `--cache-policy must be constant, static, tinylfu or none, but is "lru"`},
		{mount("--cache-policy", "none", "--cache-size", "1GiB"), "--cache-size 1GiB needs a --cache-policy other than none"},
		{mount("--local-shards", "1-0", "--shards", "4"), `--local-shards must be the first and the last shard, as in 0-3, but is "1-0"`},
		{mount("--local-shards", "4", "--shards", "4"), `--local-shards must be the first and the last of shards 0 to 3, but is "4"`},
		{mount("--io", "fast"), `--io must be direct or buffered, but is "fast"`},
		{mount("--max-read-bandwidth", "0"), `--max-read-bandwidth must be a size in bytes above 0, such as 512MiB or 8GiB, but is "0"`},
		{mount("-o", "seed=7,shards=0"), `--shards must be a whole number, at least 1, but is "0"`},
		{mount("-o", "sead=7"), "unknown option -o sead"},
		{[]string{"plan"}, "DATASET (or --samples N) is missing"},
		{[]string{"plan", "photos", "--samples", "7"}, "DATASET and --samples exclude each other: plan for one of them"},
		{[]string{"plan", "--samples", "7", "--stats"}, "--stats needs --cache-ratio, as in --cache-ratio 0.3"},
		{[]string{"help", "bogus"}, `there is no command "bogus"`},
		{[]string{"plan", "--samples", "0"}, `--samples must be a whole number, at least 1, but is "0"`},
		{[]string{"plan", "--samples", "7", "--shard", "1"}, `--shard must be a whole number from 0 to 0, but is "1"`},
		{[]string{"plan", "--samples", "7", "--epoch", "3..1"}, `--epoch must be an epoch or a range of them, A..B with A at most B, as in 3 or 0..9, but is "3..1"`},
		{[]string{"plan", "--samples", "7", "--shards", "8"}, `--shards must be at most the number of samples, 7, but is "8"`},
		{[]string{"verify", "photos", "--workers", "-1"}, `--workers must be a whole number from 1 to 4096, but is "-1"`},
		{[]string{"bench", "photos", "--rounds", "0"}, `--rounds must be a whole number from 1 to 1000, but is "0"`},
		{[]string{"stats", "mnt", "--interval", "1ms"}, `--interval must be a time of at least 50ms, such as 500ms or 2s, but is "1ms"`},
		{[]string{"gen", "--out", "x", "--images", "0"}, `--images must be a whole number, at least 1, but is "0"`},
		{[]string{"gen", "--images", "5", "--out", "x", "--classes", "10"}, "--classes must be at most --images, 5, but is \"10\""},
		{[]string{"gen", "--images", "50"}, "--out is missing"},
		{[]string{"gen", "--out", "x", "--format", "gif"}, "--format must be " + strings.Join(gen.Formats()[:len(gen.Formats())-1], ", ") + " or " + gen.Formats()[len(gen.Formats())-1] + `, but is "gif"`},
		{[]string{"gen", "--out", "x", "--kind", "mixed", "--format", "png"}, `--format must be left out with kind mixed, which has every format, but is "png"`},
		{[]string{"gen", "x", "--out", "y"}, `too many arguments at "x": gen takes no arguments`},
	} {
		refuses(t, test.want, test.args...)
	}
}

// refuses checks that a command line is refused as wrong usage, with a hint.
func refuses(t *testing.T, want string, args ...string) {
	t.Helper()
	got := batchfs(t, args...)
	first, rest, _ := strings.Cut(got.err, "\n")
	if got.status != statusUsage || !strings.HasPrefix(first, "batchfs: error: "+want) || !strings.HasPrefix(rest, "batchfs: hint: ") || strings.Count(rest, "\n") != 1 {
		t.Errorf("%q: status %d, says %q, want %q", args, got.status, got.err, want)
	}
}

// TestDidYouMean: some usage errors suggest the command that was probably meant.
func TestDidYouMean(t *testing.T) {
	for line, want := range map[string]string{
		"mont a b":                        "batchfs mount",
		"mout":                            "batchfs mount",
		"moutn a b":                       "batchfs mount",
		"unmount a":                       "batchfs umount",
		"verfiy a":                        "batchfs verify",
		"stat m":                          "batchfs stats",
		"help mont":                       "batchfs help mount",
		"mount photos mnt --sead 7":       "--seed",
		"mount --shuffle true photos mnt": "--shuffle=true",
		"mount photos mnt --pad-last-batch false":                                    "--pad-last-batch=false",
		"plan --samples 7 --shuffle true":                                            "--shuffle=true",
		"mount a b --dtype float16 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225": "--normalize imagenet",
		"mount a b --dtype float16 --mean 0.485,0.456,0.406":                         "--mean 123.675,116.28,103.53",
		"mount a b --dtype float16 --mean .5,.5,.5 --std .5,.5,.5":                   "--mean 127.5,127.5,127.5 --std 127.5,127.5,127.5",
		"mount a b --dtype float16 --mean 120,120,120 --std 0.25,0.25,1":             "--std 63.75,63.75,255",
		"mount p m --resize centre-crop --size 9x9":                                  "--resize center-crop",
		"mount p m -o resize=letterbox,size=9x9":                                     "--resize not-larger",
	} {
		got := batchfs(t, strings.Fields(line)...)
		if got.status != statusUsage || !strings.HasSuffix(got.err, "\nbatchfs: hint: did you mean: "+want+"\n") {
			t.Errorf("%s: status %d, %s", line, got.status, got.err)
		}
	}
	for _, line := range []string{"mount p m --crop-sise 9", "mount p m --foo", "index --drop-last p", "frobnicate", "foo", "mount p m --no-seed"} { // nothing is close
		if got := batchfs(t, strings.Fields(line)...); got.status != statusUsage || strings.Contains(got.err, "did you mean") || !strings.Contains(got.err, "--help\n") {
			t.Errorf("%s: status %d, %s", line, got.status, got.err)
		}
	}
	// An argument may be called "true".
	if got := batchfs(t, "index", "--json", "true"); got.status != statusFailed || strings.Contains(got.err, "did you mean") {
		t.Errorf("status %d, %s", got.status, got.err)
	}
	for _, line := range []string{"help", "help mount", "help --help", "help plan extra", "-h", "--help mount", "-v", "mount p m --help", "mount -h p", "mount --help=true p m"} {
		if got := batchfs(t, strings.Fields(line)...); got.status != statusDone || got.out == "" || got.err != "" {
			t.Errorf("%s: status %d, %s", line, got.status, got.err)
		}
	}
}

func TestFailures(t *testing.T) {
	data, mnt := photos(t, 1), t.TempDir()
	for line, want := range map[string]string{
		"index " + mnt: "no images found",
		"mount " + data + " " + mnt + " --log-file /no/log": "no such file or directory",
		"umount " + mnt:           "no batchfs is mounted there",
		"umount " + mnt + "/not":  "no such file or directory",
		"verify " + data + "-not": "does not exist",
		"plan " + data + "-not":   "does not exist",
	} {
		got := batchfs(t, strings.Fields(line)...)
		first, rest, _ := strings.Cut(got.err, "\n")
		if got.status != statusFailed || !strings.HasPrefix(first, "batchfs: error: ") || !strings.Contains(first, want) || !strings.HasPrefix(rest, "batchfs: hint: ") {
			t.Errorf("%s: status %d, says %q, want %q", line, got.status, got.err, want)
		}
	}
}

func TestLateUsageErrors(t *testing.T) {
	data, mnt := photos(t, 3), t.TempDir()
	for flags, want := range map[string]string{
		"--shards 7": `--shards must be at most the number of samples, 6, but is "7"`,
		"--size 2x9": "a/0.png",
	} {
		got := batchfs(t, append([]string{"mount", data, mnt}, strings.Fields(flags)...)...)
		if got.status != statusUsage || !strings.Contains(got.err, want) || !strings.Contains(got.err, "batchfs: hint: ") {
			t.Errorf("%s: status %d, %s", flags, got.status, got.err)
		}
	}
}

func TestIndex(t *testing.T) {
	data := photos(t, 2)
	save(t, filepath.Join(data, "a", "bad.jpg"), "no image")
	save(t, filepath.Join(data, "notes.txt"), "")
	got := batchfs(t, "index", "--json", data)
	var s struct {
		Samples, Classes, Scanned int
		MaxHeight                 int `json:"max_height"`
		MaxWidth                  int `json:"max_width"`
		Formats                   map[string]int
		IgnoredBy                 map[string]int `json:"ignored_by"`
		Unreadable                []dataset.BadFile
		Index                     string
	}
	if err := json.Unmarshal([]byte(got.out), &s); err != nil || got.status != statusDone || got.err != "" {
		t.Fatalf("status %d, %v, %s", got.status, err, got.err)
	}
	if s.Samples != 5 || s.Classes != 2 || s.MaxHeight != 3 || s.MaxWidth != 5 || s.Scanned != 5 || s.Formats["png"] != 4 || s.IgnoredBy["txt"] != 1 {
		t.Errorf("got %+v", s)
	}
	if len(s.Unreadable) != 1 || s.Unreadable[0].Path != "a/bad.jpg" || s.Unreadable[0].Reason == "" {
		t.Errorf("unreadable: %+v", s.Unreadable)
	}
	if strings.HasPrefix(s.Index, data) {
		t.Errorf("the index %s lies in the dataset", s.Index)
	}
	text := batchfs(t, data, "index")
	if text.status != statusUsage {
		t.Errorf("a dataset in place of a command: status %d", text.status)
	}
	text = batchfs(t, "index", data)
	for _, want := range []string{data + ": 5 images in 2 classes (a, b); png 4; 1 unreadable (batchfs verify " + data + "); 1 ignored file (1 .txt)\n", "largest     3 x 5 (height x width)\n", "a/bad.jpg: "} {
		if !strings.Contains(text.out, want) {
			t.Errorf("does not print %q:\n%s", want, text.out)
		}
	}
}

// TestVerify: what is missing is bad, and so is what is too large.
func TestVerify(t *testing.T) {
	data := photos(t, 3)
	if err := os.Symlink("/nowhere", filepath.Join(data, "a", "gone.jpg")); err != nil {
		t.Fatal(err)
	}
	got := batchfs(t, "verify", "--workers", "2", data)
	if lines := strings.Split(got.out, "\n"); got.status != statusFailed || got.err != "" || len(lines) != 3 || !strings.HasPrefix(lines[0], "a/gone.jpg: ") || lines[1] != "7 images, 1 bad" {
		t.Errorf("%+v", got)
	}
	if got := batchfs(t, "verify", "--max-pixels", "14", data); !strings.HasSuffix(got.out, "7 images, 7 bad\n") {
		t.Errorf("prints %q", got.out)
	}
}

// TestStrangeNames: a bad file takes one line, whatever its name.
func TestStrangeNames(t *testing.T) {
	data := photos(t, 1)
	save(t, filepath.Join(data, "a", "x\n\x1b[2J.png"), "no image")
	const want = `"a/x\n\x1b[2J.png": `
	got := batchfs(t, "verify", data)
	if lines := strings.Split(got.out, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], want) {
		t.Errorf("verify prints %q", got.out)
	}
	if got := batchfs(t, "index", data); !strings.Contains(got.out, "\n"+want) || strings.Contains(got.out, "\x1b") {
		t.Errorf("index prints %q", got.out)
	}
	var r sample.Verdict
	if err := json.Unmarshal([]byte(batchfs(t, "verify", "--json", data).out), &r); err != nil || len(r.Bad) != 1 || r.Bad[0].Path != "a/x\n\x1b[2J.png" {
		t.Errorf("%v, %+v", err, r)
	}
}

// TestInterruptedPlan: a signal ends plan with the same message as other commands.
func TestInterruptedPlan(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, flags := range []string{"", "--stats --cache-ratio 0.5"} {
		args := append([]string{"batchfs", "plan", "--samples", "7"}, strings.Fields(flags)...)
		err := run(ctx, args, io.Discard, io.Discard)
		if exitStatus(err) != statusFailed || err.Error() != "interrupted" {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestPlan(t *testing.T) {
	got := batchfs(t, "plan", "--samples", "10", "--shards", "3", "--batch-size", "2", "--shard", "1", "--epoch", "0..1", "--json")
	const want = `{"shard":1,"epoch":0,"batches":[{"batch":0,"positions":[3,4],"ids":[3,4],"valid":2},{"batch":1,"positions":[5,5],"ids":[5,5],"valid":1}]}
{"shard":1,"epoch":1,"batches":[{"batch":0,"positions":[6,7],"ids":[6,7],"valid":2},{"batch":1,"positions":[8,9],"ids":[8,9],"valid":2}]}
`
	if got.status != statusDone || got.out != want {
		t.Errorf("status %d, %s%s", got.status, got.out, got.err)
	}
	var shuffled []int64
	for _, line := range strings.Split(strings.TrimSpace(batchfs(t, "plan", photos(t, 5), "--shuffle", "--shards=2", "--pad-last-batch=false", "--last-batch=partial", "--json").out), "\n") {
		var e catalog.EpochBatches
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		for _, b := range e.Batches {
			shuffled = append(shuffled, b.IDs...)
		}
	}
	sorted := slices.Sorted(slices.Values(shuffled))
	if diff := cmp.Diff([]int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, sorted); diff != "" || slices.Equal(sorted, shuffled) {
		t.Errorf("an epoch of all shards, shuffled, reads %v", shuffled)
	}
	if got := batchfs(t, "plan", "--samples=3", "--batch-size=2"); got.out != "shard 0, epoch 0: 2 batches\n  batch     0     2 valid of    2  samples 0 1\n  batch     1     1 valid of    2  samples 2 2\n" {
		t.Errorf("prints %q", got.out)
	}
}

func TestDoctor(t *testing.T) {
	got := batchfs(t, "doctor", "--json", "--local-cache", t.TempDir())
	var r doctorReport
	if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.status != statusDone {
		t.Fatalf("status %d, %v: %s", got.status, err, got.err)
	}
	seen := map[string]bool{}
	for _, f := range r.Findings {
		seen[f.Name] = true
		if f.Found == "" || f.OK && f.Advice != "" {
			t.Errorf("%+v", f)
		}
	}
	for _, name := range []string{"FUSE", "mounting", "passthrough", "huge pages", "memory locking", "decoders", "CPUs", "memory", "GPU", "local cache"} {
		if !seen[name] {
			t.Errorf("%s was not looked at", name)
		}
	}
	dir := t.TempDir()
	for cache, mode := range map[string]os.FileMode{dir: 0o777, filepath.Join(dir, "none"): 0o700} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		var r doctorReport
		r.addLocalCache(cache)
		if f := r.Findings[0]; f.OK || f.Advice == "" || !strings.Contains(f.Found, cache) {
			t.Errorf("%+v", f)
		}
	}
	for ok, want := range map[bool]int{true: statusDone, false: statusFailed} {
		r := doctorReport{Findings: []finding{{Name: "GPU"}, {Name: mountingFinding, OK: ok}, {Name: "passthrough"}}}
		if got := exitStatus(r.verdict()); got != want {
			t.Errorf("the exit status is %d if mounting is %v, want %d", got, ok, want)
		}
	}
	var table bytes.Buffer
	c, small := &console{out: &table}, doctorReport{Version: "v1"}
	small.add("one", "fine", "", "do nothing")
	small.add("two", "fine", "bad\nluck", "do this")
	if err := c.show(small); err != nil {
		t.Fatal(err)
	}
	if want := "    batchfs  v1\nok  one      fine\n!!  two      bad; luck\n\nwhat to do:\n  two: do this\n"; table.String() != want {
		t.Errorf("prints\n%swant\n%s", table.String(), want)
	}
}

func TestGen(t *testing.T) {
	for want, o := range map[string]gen.Options{
		"photos: 7 images in 2 classes": {Dir: "photos", Images: 7, Classes: 2},
		`"a\nb": 1 image`:               {Dir: "a\nb", Images: 1},
	} {
		if got := genWords(o); got != want {
			t.Errorf("says %q, want %q", got, want)
		}
	}
	dir := filepath.Join(t.TempDir(), "new")
	if got := batchfs(t, "gen", "--out", dir, "--images", "7", "--classes", "2", "--kind", "mixed", "--seed", "3"); got != (outcome{}) {
		t.Fatalf("got %+v", got)
	}
}

// TestFirstBad: of many bad files, the first are named, and how many more there are.
func TestFirstBad(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "0.jpg: bad\n", 20: "19.jpg: bad\n", 1000: "and 980 more: --json names all of them\n"} {
		var bad []dataset.BadFile
		for i := range n {
			bad = append(bad, dataset.BadFile{Path: fmt.Sprintf("%d.jpg", i), ID: i, Reason: "bad"})
		}
		var out strings.Builder
		printFirstBad(&out, bad)
		if lines := strings.Count(out.String(), "\n"); lines != min(n, 21) || !strings.HasSuffix(out.String(), want) {
			t.Errorf("%d bad files: %d lines, %q", n, lines, out.String())
		}
	}
}

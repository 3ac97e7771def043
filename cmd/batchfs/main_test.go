package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/gen"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/urfave/cli/v2"
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
	testkit.Must(t, png.Encode(&buf, img))
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

// TestCompletions: the scripts get the right words to offer, and shells can read the scripts.
func TestCompletions(t *testing.T) {
	for line, want := range map[string]string{
		"mount --resize": "--resize-to",
		"mount --ba":     "--batch-size --batch-workers",
		"mount --chil":   "", // internal
		"--vers":         "--version",
		"":               "mount umount index plan verify profile convert unpack gen bench stats why doctor completion",
	} {
		self := exec.Command(os.Args[0], append(strings.Fields(line), completionFlag)...) // package cli reads os.Args
		out, err := self.CombinedOutput()
		if words := strings.Join(strings.Fields(string(out)), " "); words != want || err != nil {
			t.Errorf("%s: completes with %s, want %s; %v", line, words, want, err)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		got := batchfs(t, "completion", shell)
		if got.status != statusDone || !strings.Contains(got.out, "batchfs") {
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
}

func TestWithoutCommand(t *testing.T) {
	if got := batchfs(t); got.status != statusUsage || !strings.Contains(got.out, "Commands:") {
		t.Errorf("got status %d and %q", got.status, got.out)
	}
	for _, line := range []string{"version", "--version", "-v"} {
		if got := batchfs(t, line); got.status != statusDone || got.out != "batchfs version "+version()+"\n" {
			t.Errorf("%s: status %d, %s", line, got.status, got.err)
		}
	}
	if got := batchfs(t, "help", "mount"); got.status != statusDone || !strings.Contains(got.out, "--batch-size") {
		t.Errorf("got status %d and %q", got.status, got.out)
	}
}

// TestArguments: arguments may look like commands or flags, and help can be asked for in several
// ways.
func TestArguments(t *testing.T) {
	// An argument may be called "true".
	if got := batchfs(t, "index", "--json", "true"); got.status != statusFailed || strings.Contains(got.err, "did you mean") {
		t.Errorf("status %d, %s", got.status, got.err)
	}
	for _, line := range []string{"help", "help mount", "help --help", "help plan extra", "-h", "--help mount", "mount p m --help", "mount -h p", "mount --help=true p m"} {
		if got := batchfs(t, strings.Fields(line)...); got.status != statusDone || got.out == "" || got.err != "" {
			t.Errorf("%s: status %d, %s", line, got.status, got.err)
		}
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
	for _, name := range []string{"FUSE", "mounting", "passthrough", "huge pages", "memory locking", "decoders", "GPU", "local cache"} {
		if !seen[name] {
			t.Errorf("%s was not looked at", name)
		}
	}
	dir := t.TempDir()
	for cache, mode := range map[string]os.FileMode{dir: 0o777, filepath.Join(dir, "none"): 0o700} {
		testkit.Must(t, os.Chmod(dir, mode))
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
	testkit.Must(t, c.show(small))
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

// TestFirstBad: if there are many bad files, the first are named, and the others are counted.
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

// TestSecondSignal: a command that does not stop is abandoned, after a second signal at once.
func TestSecondSignal(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	for _, second := range []bool{true, false} { // without one, a moment later
		s := &signals{}
		err := s.supervise(func(ctx context.Context) error {
			send(t, syscall.SIGTERM)
			<-ctx.Done()
			if second {
				send(t, syscall.SIGTERM)
			}
			<-never
			return nil
		})
		if !errors.Is(err, errAbandoned) || exitStatus(err) != statusFailed {
			t.Errorf("it ended with %v", err)
		}
	}
}

// TestSignalsTaken: once there is a mount, it gets the signals, including an earlier one.
// Signals with another meaning end nothing.
func TestSignalsTaken(t *testing.T) {
	s := &signals{}
	err := s.supervise(func(ctx context.Context) error {
		hung := make(chan struct{})
		s.serve(syscall.SIGHUP, func() { hung <- struct{}{} })
		send(t, syscall.SIGHUP)
		<-hung
		if ctx.Err() != nil {
			t.Error("SIGHUP cancelled the command")
		}
		send(t, syscall.SIGINT)
		<-ctx.Done()
		mine := s.forward()
		<-mine
		send(t, syscall.SIGTERM)
		<-mine
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func send(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(syscall.Getpid(), s); err != nil {
		t.Error(err)
	}
}

// parse runs a command line of a command with some flags, and returns its arguments.
func parse(f *flagSet, words ...string) (args []string, err error) {
	app := &cli.App{Name: "batchfs", ExitErrHandler: func(*cli.Context, error) {}, Commands: []*cli.Command{{
		Name: "try", Flags: append(f.flags, cli.HelpFlag), HideHelpCommand: true,
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return cmp.Or(f.refused, wrongUsage(err)) },
		Action: func(cmd *cli.Context) error {
			args = cmd.Args().Slice()
			return nil
		},
	}}}
	_, words, err = choose(app, append([]string{"try"}, words...))
	if err == nil {
		err = app.Run(words)
	}
	return args, err
}

// parsed returns the flags and arguments of a command line of a small command with two switches,
// two values, and -o.
func parsed(line string) (flags, args string, err error) {
	f := &flagSet{}
	f.toggle(new(bool), "shuffle", false, "")
	f.toggle(new(bool), "json", false, "")
	f.derived("seed", "", "`N`", anything(new(string), "a text"))
	f.derived("list", "", "`N`", anything(new(string), "a text"))
	f.flags = append(f.flags, &cli.GenericFlag{Name: optionFlag, Aliases: []string{"o"}, Value: expanded{}})
	words, err := parse(f, strings.Fields(line)...)
	return strings.Join(f.spelled(), " "), strings.Join(words, " "), err
}

func TestCommandLines(t *testing.T) {
	const ignored = "defaults,rw,ro,_netdev,user,users,user=alice,noauto,auto,nofail,nosuid,nodev,noexec,dev,suid,exec,relatime," +
		"x-systemd.automount,x-gvfs-show,X-mount.mkdir,comment=photos,default_permissions"
	for _, test := range []struct {
		name            string
		in, flags, args string // space-separated; flags in the order of their definition or use
	}{
		{"nothing", "", "", ""},
		{"flags first", "--seed 7 a b", "--seed=7", "a b"},
		{"flags last", "a b --seed 7 --shuffle", "--seed=7 --shuffle=true", "a b"},
		{"flags between", "a --shuffle b --seed=7", "--shuffle=true --seed=7", "a b"},
		{"a switch takes no value", "--shuffle a b", "--shuffle=true", "a b"},
		{"a switch with a value", "--shuffle=false a", "--shuffle=false", "a"},
		{"one dash", "-seed 7 a -shuffle", "--seed=7 --shuffle=true", "a"},
		{"one dash and an equals sign", "-seed=7 a", "--seed=7", "a"},
		{"a value that looks like a flag", "--seed --shuffle a", "--seed=--shuffle", "a"},
		{"a negative value", "a --seed -5", "--seed=-5", "a"},
		{"a value with an equals sign", "--list=a=b c", "--list=a=b", "c"},
		{"behind a double dash all is argument", "a --shuffle -- --seed 7 -seed", "--shuffle=true", "a --seed 7 -seed"},
		{"a double dash as a value", "--seed -- a", "--seed=--", "a"},
		{"a lone dash is an argument", "- --shuffle", "--shuffle=true", "-"},
		{"the last of the same wins", "--seed 1 a --seed 2", "--seed=2", "a"},
		{"options", "a b -o shuffle,seed=7,rw,x-systemd.automount,nofail", "--shuffle=true --seed=7", "a b"},
		{"options that mean nothing", "-o " + ignored, "", ""},
		{"arguments like commands, flags and settings", "help --seed=1 h seed -", "--seed=1", "help h seed -"},
		{"options before flags", "-o seed=1 a --seed 2", "--seed=2", "a"},
		{"options after flags", "--seed=2 -o seed=1 a", "--seed=1", "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			flags, args, err := parsed(test.in)
			if err != nil || flags != test.flags || args != test.args {
				t.Errorf("flags %q, want %q; arguments %q, want %q; %v", flags, test.flags, args, test.args, err)
			}
		})
	}
}

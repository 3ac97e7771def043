package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/store"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

func TestReport(t *testing.T) {
	for _, test := range []struct {
		err    error
		want   string
		status int
	}{
		{nil, "", 0},
		{fs.ErrNotExist, "batchfs: error: file does not exist\n", 1},
		{errors.New("two\nlines"), "batchfs: error: two; lines\n", 1},
		{hint(fs.ErrExist, "rm %s", "x"), "batchfs: error: file already exists\nbatchfs: hint: rm x\n", 1},
		{fmt.Errorf("outer: %w", hint(fs.ErrExist, "rm")), "batchfs: error: outer: file already exists\nbatchfs: hint: rm\n", 1},
		{badValue("seed", "small", "7"), "batchfs: error: --seed must be small, but is \"7\"\n", 2},
		{withHelp(badValue("seed", "small", "7"), "batchfs plan"), "batchfs: error: --seed must be small, but is \"7\"\nbatchfs: hint: batchfs plan --help\n", 2},
		{withHelp(fs.ErrExist, "batchfs plan"), "batchfs: error: file already exists\n", 1},
		{exitSilently(7), "", 7},
		{fmt.Errorf("late: %w", usage("wrong")), "batchfs: error: late: wrong\n", 2},
	} {
		var out bytes.Buffer
		report(&out, test.err)
		if out.String() != test.want || exitStatus(test.err) != test.status {
			t.Errorf("%v: says %q with status %d", test.err, out.String(), exitStatus(test.err))
		}
	}
}

func TestCount(t *testing.T) {
	for _, test := range []struct {
		n    int
		noun string
		want string
	}{{1, "image", "1 image"}, {0, "image", "0 images"}, {2, "class", "2 classes"}, {3, "batch", "3 batches"}, {1, "batch", "1 batch"}} {
		if got := count(test.n, test.noun); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{"mnt/a-b_c.d": "mnt/a-b_c.d", "my photos": "'my photos'", "it's": `'it'\''s'`, "": "''", "$x": "'$x'"} {
		if got := shellWord(in); got != want {
			t.Errorf("%q becomes %s, want %s", in, got, want)
		}
	}
}

func TestShown(t *testing.T) {
	for name, want := range map[string]string{
		"a/0 1.png":       "a/0 1.png",
		"größe/猫.jpg":     "größe/猫.jpg",
		`a\b "c".png`:     `a\b "c".png`,
		"a\nb: fine":      `"a\nb: fine"`,
		"\x1b[2J.png":     `"\x1b[2J.png"`,
		"\xff.png":        `"\xff.png"`,
		"\u202egnp.exe":   `"\u202egnp.exe"`,
		`"quoted".png`:    `"\"quoted\".png"`,
		"tab\t\"x\".jpeg": `"tab\t\"x\".jpeg"`,
	} {
		if got := displayName(name); got != want {
			t.Errorf("%q is shown as %s, want %s", name, got, want)
		}
	}
}

// TestRemedies: the advice about an error of an open depends on its cause; a bad file has its own
// reason instead.
func TestRemedies(t *testing.T) {
	wrap := func(errs ...error) error { return fmt.Errorf("a batch: %w", errors.Join(errs...)) }
	for _, test := range []struct {
		err  error
		want string
	}{
		{wrap(engine.ErrMachine, unix.EIO), "check the dataset's storage"},
		{wrap(engine.ErrTooBig), "make batches smaller: --batch-size"},
		{wrap(engine.ErrMachine, unix.EMFILE), "raise the limit on open files"},
		{wrap(engine.ErrMachine, unix.ENFILE), "raise the system's limit on open files"},
		{wrap(engine.ErrMachine, unix.EFBIG), "raise the limit on the size of files"},
		{wrap(engine.ErrMachine, unix.ESTALE), "check the dataset's storage"},
		{wrap(engine.ErrNoMemory, decode.ErrMemory), "the kernel refuses memory"},
		{wrap(engine.ErrNoMemory, unix.ENOMEM), "the kernel refuses memory"},
		{wrap(engine.ErrMachine, gpu.ErrLost), "see dmesg and nvidia-smi; mount again"},
		{wrap(engine.ErrMachine, gpu.ErrNVJPEG), "see dmesg and nvidia-smi; --gpu-decode"},
		{wrap(engine.ErrNoMemory), "raise --memory-limit"},
		{wrap(engine.ErrNoMemory, unix.ENOSPC), "the kernel refuses memory"},
		{wrap(engine.ErrNoRoomOnGPU), "raise --device-memory-limit, hold fewer"},
		{wrap(engine.ErrNoMemory, gpu.ErrMemory), "raise --device-memory-limit, or leave more"},
		{wrap(engine.ErrMachine, engine.ErrPanic), "this is a bug in batchfs"},
		{wrap(engine.ErrMachine, store.ErrDenied), "renew the credentials"},
	} {
		if got := remedy(test.err); !strings.HasPrefix(got, test.want) {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}

// TestOtherWordsAreRight: words that otherwords.txt proposes are accepted, and the words it
// translates are not.
func TestOtherWordsAreRight(t *testing.T) {
	var flags []cli.Flag
	commands := newApp(&console{}, true)
	for _, cmd := range commands.Commands {
		flags = append(flags, cmd.Flags...)
	}
	accepted := func(name, value string) bool {
		flag, ok := find(flags, name).(*cli.GenericFlag)
		return ok && flag.Value.(*setting).parse(value) == ""
	}
	text := strings.TrimSpace(otherWordsText[strings.Index(otherWordsText, "\n\n"):])
	for line := range strings.Lines(text) {
		words, ours, ok := strings.Cut(strings.TrimSpace(line), " => ")
		switch meant := strings.Fields(strings.TrimPrefix(ours, "--shuffle=")); {
		case line == "\n":
			continue
		case !ok || ours == "":
			t.Errorf("%q", line)
		case meant[0] == "batchfs" && commands.Command(meant[1]) == nil, strings.HasPrefix(meant[0], "--") && find(flags, meant[0][2:]) == nil:
			t.Errorf("there is no %s", ours)
		case strings.HasPrefix(meant[0], "--") && len(meant) > 1 && meant[1] != "HxW" && !accepted(meant[0][2:], meant[1]):
			t.Errorf("%s is not accepted", ours)
		}
		for word := range strings.SplitSeq(words, ", ") {
			parts := strings.Fields(strings.TrimLeft(word, "-"))
			switch {
			case parts[0] == "batchfs" && commands.Command(parts[1]) != nil, len(parts) == 2 && parts[0] != "batchfs" && accepted(parts[0], parts[1]):
				t.Errorf("%s is one of our words", word)
			case len(parts) == 1 && find(flags, parts[0]) != nil && !slices.Contains([]string{"rank", "world-size"}, parts[0]):
				t.Errorf("%s is a flag of ours", word)
			}
		}
	}
}

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "1": 1, "1048576": 1 << 20, "512B": 512, "4K": 4 << 10, "4KiB": 4 << 10, "4KB": 4000,
		"512MiB": 512 << 20, "8GiB": 8 << 30, "8G": 8 << 30, "8GB": 8e9, "1TiB": 1 << 40, "1.5GiB": 3 << 29,
		" 2 MiB ": 2 << 20, "010": 10, ".5K": 512, "0.5K": 512, "9223372036854775807": math.MaxInt64,
	} {
		if got, ok := parseBytes(in); !ok || got != want {
			t.Errorf("%q is %d, %v; want %d", in, got, ok, want)
		}
	}
	for _, in := range []string{
		"", "12q", "GiB", "-1", "-1GiB", "1e9", "0x10", "inf", "NaN", "1_000", "1,5GiB", "8gib", "8 G iB", "1.2.3M",
		"9223372036854775808", "8388608TiB", "99999999999999999999999T", "+5",
	} {
		if got, ok := parseBytes(in); ok {
			t.Errorf("%q is taken for %d bytes", in, got)
		}
	}
}

func TestFormatBytes(t *testing.T) {
	for in, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB", math.MaxInt64: "8.0 EiB",
	} {
		if got := formatBytes(in); got != want {
			t.Errorf("%d is %q, want %q", in, got, want)
		}
	}
}

func TestParseExtent(t *testing.T) {
	for in, want := range map[string][2]int{"375x500": {375, 500}, "1x1": {1, 1}, "224X224": {224, 224}} {
		if h, w, ok := parseExtent(in); !ok || h != want[0] || w != want[1] {
			t.Errorf("%q is %dx%d, %v", in, h, w, ok)
		}
	}
	for _, in := range []string{"", "x", "224", "0x5", "5x0", "-1x5", "5x", "x5", "5x5x5", "5 x 5", "1048577x1", "axb", "99999999999999999999x1"} {
		if h, w, ok := parseExtent(in); ok {
			t.Errorf("%q is taken for %dx%d", in, h, w)
		}
	}
}

func TestParseSpan(t *testing.T) {
	for in, want := range map[string][2]int{"0": {0, 0}, "7": {7, 7}, "0..9": {0, 9}, "3..3": {3, 3}} {
		if a, b, ok := parseSpan(in, ".."); !ok || a != want[0] || b != want[1] {
			t.Errorf("%q is %d..%d, %v", in, a, b, ok)
		}
	}
	for _, in := range []string{"", "-1", "..", "1..", "..1", "2..1", "1..2..3", "1...3", "a", "2147483648", "+1"} {
		if a, b, ok := parseSpan(in, ".."); ok {
			t.Errorf("%q is taken for %d..%d", in, a, b)
		}
	}
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/store"
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

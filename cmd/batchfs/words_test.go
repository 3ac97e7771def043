package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"testing"
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
		{said(7), "", 7},
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
		if got := shown(name); got != want {
			t.Errorf("%q is shown as %s, want %s", name, got, want)
		}
	}
}

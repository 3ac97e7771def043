package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPartsOfCommands: index, verify and convert in parts end with what they make in one run, and
// say which command is missing until then.
func TestPartsOfCommands(t *testing.T) {
	data, at := photos(t, 4), filepath.Join(t.TempDir(), "at")
	save(t, filepath.Join(data, "b", "bad.jpg"), "rubbish")
	out, one := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "one")
	for _, command := range [][]string{
		{"index", "--index-at=" + at, data},
		{"verify", "--index-at=" + at, data},
		{"convert", "--raw-ratio=0.5", "--index-at=" + at, data, out},
	} {
		run := func(status int, more ...string) outcome {
			t.Helper()
			got := batchfs(t, append(slices.Clone(command), more...)...)
			if got.status != status {
				t.Fatalf("%q, %q: status %d, says %s%s", command, more, got.status, got.out, got.err)
			}
			return got
		}
		bad := 0 // status of what finds the bad file
		if command[0] == "verify" {
			bad = statusFailed
		}
		if command[0] != "convert" {
			if got := run(statusFailed, "--merge"); !strings.Contains(got.err, "no part has been made") {
				t.Errorf("%q: %s", command, got.err)
			}
		}
		run(0, "--part", "0/3")
		got := run(statusFailed, "--merge")
		hint := "hint: for k in 1 2; do batchfs " + strings.Join(command, " ") + " --part $k/3; done\n"
		if !strings.HasSuffix(got.err, hint) || !strings.Contains(got.err, "2 of 3 parts cannot be joined: part 1/3 is missing") {
			t.Errorf("%s\nwant %s", got.err, hint)
		}
		run(0, "--part", "1/3")
		if got := run(bad, "--part", "2/3"); command[0] == "verify" && !strings.Contains(got.out, "b/bad.jpg: ") {
			t.Error(got.out)
		}
		merged := run(bad, "--merge", "--json")
		again := run(bad, "--merge", "--json") // as a scheduler may
		if command[0] == "convert" {
			command[len(command)-1] = one
		} else if merged.out != again.out {
			t.Errorf("%q: joined again:\n%s%s", command, merged.out, again.out)
		}
		whole := run(bad, "--json")
		if command[0] == "verify" && merged.out != whole.out {
			t.Errorf("in parts %s, in one run %s", merged.out, whole.out)
		}
	}
	if a, b := namesIn(t, out), namesIn(t, one); !slices.Equal(a, b) || len(a) < 9 {
		t.Errorf("in parts %q, in one run %q", a, b)
	}
}

func namesIn(t *testing.T, dir string) (names []string) {
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, strings.TrimPrefix(path, dir))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestIndexOfAPart: what a part says is about itself.
func TestIndexOfAPart(t *testing.T) {
	data := photos(t, 4)
	got := batchfs(t, "index", "--part", "1/4", data)
	if got.status != 0 || !regexp.MustCompile(`(?s)^part 1/4: 2 images\n.*index +\S+-00001-of-00004\.facts\n`).MatchString(got.out) {
		t.Error(got)
	}
	var r struct {
		Part    string
		Samples int
	}
	got = batchfs(t, "index", "--part", "1/4", "--json", data)
	if err := json.Unmarshal([]byte(got.out), &r); err != nil || r.Part != "1/4" || r.Samples != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestPartsUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"index", "--part", "4/4", "x"}, `--part must be K/N, such as 0/16, with K from 0 to N-1 and N up to 99999, but is "4/4"`},
		{[]string{"verify", "--part", "1", "x"}, `--part must be K/N`},
		{[]string{"verify", "--part", "-1/4", "x"}, `--part must be K/N`},
		{[]string{"index", "--part", "0/100000", "x"}, `--part must be K/N`},
		{[]string{"index", "--part", "0/2", "--merge", "x"}, "--part and --merge cannot be given together"},
		{[]string{"index", "--part", "0/2", "--entry-points", "rows", "x"}, "--entry-points cannot be given with --part"},
		{[]string{"index", "--index-at", "s3://bucket/x.facts", "x"}, "--index-at must be a directory or a file of this machine"},
		{[]string{"convert", "--part", "0/2", "--raw-ratio", "auto", "x", "y"}, "--part needs numbers for --raw-ratio and --packed-ratio"},
	} {
		got := batchfs(t, c.args...)
		if got.status != statusUsage || !strings.HasPrefix(got.err, "batchfs: error: "+c.want) || strings.Count(got.err, "\n") != 2 {
			t.Errorf("%q: status %d, says %s", c.args, got.status, got.err)
		}
	}
}

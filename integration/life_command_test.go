package integration

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// An outcome is a command's exit status and output.
type outcome struct {
	words       string // the command line
	status      int
	out, stderr string
}

// execute runs batchfs to its end.
func execute(t testing.TB, args ...string) outcome {
	t.Helper()
	return executeAs(t, thisUser().daemon(append([]string{suite.binary}, args...)))
}

func executeAs(t testing.TB, cmd *exec.Cmd) outcome {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	check(t, cmd.Start())
	hung := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer hung.Stop()
	o := outcome{words: strings.Join(cmd.Args, " ")}
	var exit *exec.ExitError
	switch err := cmd.Wait(); {
	case errors.As(err, &exit):
		o.status = exit.ExitCode()
	case err != nil:
		t.Fatalf("%s: %v", o.words, err)
	}
	o.out, o.stderr = out.String(), stderr.String()
	if strings.Contains(o.stderr, "DATA RACE") {
		t.Errorf("%s: %s", o.words, o.stderr)
	}
	return o
}

// done checks for success without error messages.
func (o outcome) done(t testing.TB) outcome {
	t.Helper()
	o.ended(t, 0)
	if strings.Contains(o.stderr, "batchfs: error") {
		t.Errorf("%s: complains: %s", o.words, o.stderr)
	}
	return o
}

// failed checks for status 1, one error line, at most one hint line, and words in them.
func (o outcome) failed(t testing.TB, words ...string) outcome {
	t.Helper()
	return o.refused(t, 1, words...)
}

// wrong checks for a usage error.
func (o outcome) wrong(t testing.TB, words ...string) outcome {
	t.Helper()
	return o.refused(t, 2, words...)
}

func (o outcome) refused(t testing.TB, status int, words ...string) outcome {
	t.Helper()
	o.ended(t, status)
	if o.out != "" {
		t.Errorf("%s: printed %q on standard output", o.words, o.out)
	}
	lines := strings.Split(strings.TrimSuffix(o.stderr, "\n"), "\n")
	if !strings.HasPrefix(lines[0], "batchfs: error: ") || len(lines) > 2 || len(lines) == 2 && !strings.HasPrefix(lines[1], "batchfs: hint: ") {
		t.Errorf("%s: an error and a hint were to be said, not\n%s", o.words, o.stderr)
	}
	for _, w := range words {
		if !strings.Contains(o.stderr, w) {
			t.Errorf("%s: %q is not in\n%s", o.words, w, o.stderr)
		}
	}
	return o
}

func (o outcome) ended(t testing.TB, status int) {
	t.Helper()
	if o.status != status {
		t.Errorf("%s: exit status %d, want %d\n%s", o.words, o.status, status, o.stderr)
	}
}

// runProgram runs a program that finds batchfs and its Python package, and returns its output. dir
// is its working directory; "": the tests' own.
func runProgram(t testing.TB, dir string, env []string, name string, args ...string) string {
	t.Helper()
	modules, err := filepath.Abs("../python")
	check(t, err)
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = slices.Concat(thisUser().environment(), []string{
		"PATH=" + filepath.Dir(suite.binary) + string(os.PathListSeparator) + os.Getenv("PATH"), "PYTHONPATH=" + modules, "PYTHONDONTWRITEBYTECODE=1",
	}, env)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// digests returns the sha256 of files, as another program reads them.
func (m *mounted) digests(t testing.TB, files ...string) []string {
	t.Helper()
	sums, err := m.sha256(files)
	check(t, err)
	return sums
}

func (m *mounted) sha256(files []string) (sums []string, err error) {
	out, err := m.try(append([]string{"sha256sum", "--"}, files...)...)
	for line := range strings.Lines(out) {
		sum, _, _ := strings.Cut(line, " ")
		sums = append(sums, sum)
	}
	return sums, err
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestKilledAndSurviving: the tests of the package examine only Clamp, and not its lower bound, so
// mutants survive that only other tests would notice. Mutants that do not compile, the constant 1
// of an int64 and its line, are left out, and a run continues where another one ended.
func TestKilledAndSurviving(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: this run is a short one, and it compiles the tests of a module of its own")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example\n\ngo 1.26.0\n",
		"clamp.go": `package example

func Clamp(x, low, high int) int {
	if x > high || x < low {
		x = high
	}
	return x + 0
}

func unused() (n int64) {
	n = int64(n)
	return n + 1
}
`,
		"clamp_test.go": `package example

import "testing"

func TestClamp(t *testing.T) {
	for x, want := range map[int]int{3: 3, 5: 5, 6: 5} {
		if got := Clamp(x, 0, 5); got != want {
			t.Error(got)
		}
	}
}
`,
	} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	t.Setenv("GOFLAGS", "")
	t.Chdir(dir)
	output := filepath.Join(dir, "results")
	for _, count := range []int{3, 100} {
		testkit.Must(t, run(".", output, "1", count, time.Now().Add(time.Hour), false))
	}
	want := map[string]string{
		"clamp.go Clamp return 1":     "killed",
		"clamp.go Clamp drop 1":       "killed",
		"clamp.go Clamp negate 1":     "killed",
		"clamp.go Clamp negate 2":     "killed",
		"clamp.go Clamp boundary 1":   "survived", // Clamp(5, 0, 5) is 5 either way
		"clamp.go Clamp boundary 2":   "survived",
		"clamp.go Clamp arithmetic 1": "survived",
		"clamp.go Clamp constant 1":   "killed",
		"clamp.go unused return 1":    "survived",
		"clamp.go unused drop 1":      "survived",
	}
	text, err := os.ReadFile(output)
	testkit.Must(t, err)
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if name := fields[1]; want[name] != fields[0] {
			t.Errorf("%s: %s, want %s once", name, fields[0], want[name])
		} else if fields[0] == "killed" && fields[2] != "TestClamp" {
			t.Errorf("%s was killed by %s", name, fields[2])
		}
		delete(want, fields[1])
	}
	for name := range want {
		t.Errorf("%s: no result", name)
	}
}

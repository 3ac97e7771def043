package resample

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// fused matches arm64's instructions that multiply and add with one rounding.
var fused = regexp.MustCompile(`\t(FN?M(?:ADD|SUB)[SD])\t`)

// TestNothingIsFused: no result depends on whether the processor can multiply and add with one
// rounding. Go uses such instructions on arm64 and others (never on amd64, where the tests run)
// unless the product is converted explicitly: float64(x*y) + z.
func TestNothingIsFused(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: this run is a short one, and it would compile Go's library for another processor")
	}
	// First test the detector: it must find the compiler's output for plain code.
	plain := t.TempDir()
	write(t, filepath.Join(plain, "go.mod"), "module plain\n\ngo 1.22\n")
	write(t, filepath.Join(plain, "plain.go"), "package plain\n\nfunc F(x, y, z float64) float64 { return x*y + z }\n")
	if code := assembly(t, plain, "."); !fused.MatchString(code) {
		t.Fatal("the compiler fused nothing in x*y + z: this test can see nothing")
	}
	for _, pkg := range []string{"decode", "layout", "decode/resample", "internal/keep"} {
		code := assembly(t, "../..", "./"+pkg)
		if !strings.Contains(code, "FMULD") && pkg != "decode" && pkg != "layout" {
			t.Errorf("%s: no multiplication of floats among its instructions: were they listed at all?", pkg)
		}
		for line := range strings.Lines(code) {
			if fused.MatchString(line) {
				t.Errorf("%s: a multiplication and an addition are one: %s", pkg, strings.TrimSpace(line))
			}
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
}

// assembly returns the compiler's output for a package on arm64, without C.
func assembly(t *testing.T, dir, pkg string) string {
	t.Helper()
	build := exec.Command("go", "build", "-gcflags=-S", pkg)
	build.Dir = dir
	build.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("go build %s for arm64: %v\n%s", pkg, err, out)
	}
	return string(out)
}

//go:build cgo && linux

package decode_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/testkit"
)

const printVersion = "BATCHFS_TEST_PRINT_VERSION"

func TestMain(m *testing.M) {
	if os.Getenv(printVersion) != "" {
		os.Stdout.WriteString(Version())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestVersionOfWhatRuns runs this program again with a libjpeg-turbo that claims another
// version, in place of the one it was compiled against.
func TestVersionOfWhatRuns(t *testing.T) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	path := regexp.MustCompile(`/\S*/libjpeg\.so\.\d+\S*`).FindString(string(maps))
	if path == "" {
		t.Skip("libjpeg is not a library of its own in this build")
	}
	library, err := os.ReadFile(path)
	if err != nil {
		t.Skip(err)
	}
	text := regexp.MustCompile(`libjpeg-turbo version [0-9.]+`)
	mine := text.Find(library)
	if mine == nil {
		t.Skipf("%s does not say its version", path)
	}
	other := append([]byte("libjpeg-turbo version "), bytes.Repeat([]byte("9"), len(mine)-len("libjpeg-turbo version "))...)
	other[len(other)-2] = '.'
	dir := t.TempDir()
	name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), "libjpeg.so."), ".")
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "libjpeg.so."+name), bytes.Replace(library, mine, other, 1), 0o600))
	again := exec.Command(os.Args[0])
	again.Env = append(os.Environ(), printVersion+"=1", "LD_LIBRARY_PATH="+dir)
	out, err := again.Output()
	testkit.Must(t, err)
	want := strings.Replace(string(other), " version", "", 1)
	if !strings.HasPrefix(string(out), want+",") || strings.HasPrefix(Version(), want) {
		t.Errorf("with a library that says %q: %q; without it: %q", other, out, Version())
	}
}

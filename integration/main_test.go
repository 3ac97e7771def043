package integration

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batchfs/batchfs/fusefs"
	"github.com/batchfs/batchfs/internal/hangfs"
	"github.com/batchfs/batchfs/internal/testkit"
)

// suite is shared by all tests.
var suite struct {
	dir    string // for all files written; every user may enter it
	binary string // the batchfs binary
	self   string // this test binary, where every user can run it
}

// parts are the functions this binary runs as another process, selected by its first
// argument: programs that a mount depends on. A part answers by printing.
var parts = map[string]func(args []string) error{
	"part-faulty":    func(args []string) error { return hangfs.Serve(args, os.Stdin, os.Stdout) },
	"part-no-leases": partNoLeases,
}

func TestMain(m *testing.M) { testkit.Main(m, parts, prepareSuite) }

func prepareSuite(dir string) (err error) {
	syscall.Umask(0o022) // ordinary users read files created here
	suite.dir, suite.binary, suite.self = dir, filepath.Join(dir, "batchfs"), filepath.Join(dir, "part")
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if built := os.Getenv("BATCHFS_BINARY"); built != "" { // make test builds it once for several runs
		err = copyFile(suite.binary, built, 0o755)
	} else {
		err = testkit.Build("../scripts/build.sh", suite.binary)
	}
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return copyFile(suite.self, self, 0o755)
}

func copyFile(to, from string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// check ends a test that cannot continue.
func check(t testing.TB, err error) {
	t.Helper()
	testkit.Must(t, err)
}

// scratch returns a directory for one test. Unlike t.TempDir's, every user may enter it.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(suite.dir, "test-")
	check(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	check(t, os.Chmod(dir, 0o755))
	return dir
}

// capabilities probes once.
var capabilities = sync.OnceValue(fusefs.Probe)

// skipWithoutFUSE skips a test, visibly, if mounting is impossible.
func skipWithoutFUSE(t testing.TB) {
	t.Helper()
	switch c := capabilities(); {
	case c.Device != "":
		t.Skipf("SKIPPED: NO MOUNT CAN BE TESTED HERE: /dev/fuse: %s", c.Device)
	case !c.SysAdmin && c.Fusermount == "":
		t.Skip("SKIPPED: NO MOUNT CAN BE TESTED HERE: not root, and fusermount3 is not installed")
	}
}

// skipWithoutPassthrough skips a test if the kernel does not support passthrough.
func skipWithoutPassthrough(t testing.TB) {
	t.Helper()
	skipWithoutFUSE(t)
	if c := capabilities(); !c.Passthrough {
		t.Skipf("SKIPPED: passthrough cannot be tested here: %s", c.Reason)
	}
}

// needTool finds a program, or skips the test.
func needTool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("SKIPPED: %s is not installed", name)
	}
	return path
}

// eventually polls until so returns true. It is for conditions without notification, such
// as a process starting to wait in the kernel. It looks less often the longer it takes,
// since most looks start a process.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	const first, longest = time.Millisecond, 20 * time.Millisecond
	deadline := time.Now().Add(patience)
	for pause := first; !so(); pause = min(pause*5/4, longest) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(pause)
	}
}

package testkit

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// ServerBinary returns the path of an object store that scripts/servers.sh installs, or skips the
// test.
func ServerBinary(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(root(t), "bin/servers", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED: %s is not installed; scripts/servers.sh does that", name)
	}
	return path
}

// StartServer runs a server until the end of the test. Its output is logged if the test fails. The
// channel is closed when the server has ended.
func StartServer(t testing.TB, path string, args ...string) (ended <-chan struct{}) {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // also if the test panics
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		if t.Failed() {
			t.Logf("%s says:\n%s", path, output.Bytes())
		}
	})
	return done
}

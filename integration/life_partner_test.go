package integration

import (
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
)

// A partner is a program that runs during a test.
type partner struct{ *testkit.Partner }

// partner starts a Python program where the mount is visible. It may import what is part of
// Python.
func (m *mounted) partner(t testing.TB, program string, args ...string) *partner {
	t.Helper()
	return startPartner(t, m.command(append([]string{plainPython(t), "-I", "-S", "-c", program}, args...)...))
}

// plainPython finds a Python, once for all tests, since many of them start many.
func plainPython(t testing.TB) string {
	t.Helper()
	pythonOnce.Do(func() { pythonPath = testkit.Python(t) })
	if pythonPath == "" {
		t.Skip("SKIPPED: python3 is not installed")
	}
	return pythonPath
}

var (
	pythonOnce sync.Once
	pythonPath string
)

func startPartner(t testing.TB, cmd *exec.Cmd) *partner {
	t.Helper()
	p, err := testkit.StartPartner(cmd, patience)
	check(t, err)
	t.Cleanup(func() { _ = p.End() })
	return &partner{p}
}

// expect reads the next line and compares it.
func (p *partner) expect(t testing.TB, want string) {
	t.Helper()
	check(t, p.Expect(want))
}

func (p *partner) line(t testing.TB) string {
	t.Helper()
	line, err := p.Line()
	check(t, err)
	return line
}

// tell writes a line.
func (p *partner) tell(t testing.TB, line string) {
	t.Helper()
	check(t, p.Tell(line))
}

func (p *partner) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	check(t, p.Cmd.Process.Signal(s))
}

func (p *partner) end() { _ = p.End() }

// gone waits for the started program, but not for processes it forked.
func (p *partner) gone(t testing.TB) {
	t.Helper()
	hung := time.AfterFunc(patience, func() { _ = p.Cmd.Process.Kill() })
	defer hung.Stop()
	_ = p.Cmd.Wait() // its output already told how it ended
}

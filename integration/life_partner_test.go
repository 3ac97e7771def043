package integration

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
)

// A partner is a program that runs during a test. It communicates in lines, and ends when
// its input ends.
type partner struct {
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Reader
	raw *os.File // file behind out
}

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
	stdin, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	raw, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer stdout.Close()
	p := &partner{cmd: cmd, in: in, out: bufio.NewReader(raw), raw: raw}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.end() })
	return p
}

// expect reads the next line and compares it.
func (p *partner) expect(t testing.TB, want string) {
	t.Helper()
	if got := p.line(t); got != want {
		t.Fatalf("%s said %q, not %q", p.cmd.Path, got, want)
	}
}

func (p *partner) line(t testing.TB) string {
	t.Helper()
	if err := p.raw.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%s: said %q, then %v", p.cmd.Path, line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// tell writes a line.
func (p *partner) tell(t testing.TB, line string) {
	t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (p *partner) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// gone waits for the started program, but not for processes it forked.
func (p *partner) gone(t testing.TB) {
	t.Helper()
	hung := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer hung.Stop()
	_ = p.cmd.Wait() // its output already told how it ended
}

// end releases the program and everything it has forked, and returns when all of them are
// gone. It may be called again.
func (p *partner) end() {
	_ = p.in.Close()
	_ = p.raw.SetReadDeadline(time.Now().Add(patience))
	_, _ = io.Copy(io.Discard, p.out)
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	_ = p.raw.Close()
}

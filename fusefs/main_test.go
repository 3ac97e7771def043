package fusefs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// A process must not touch its own mount, and some tests kill the mounting process. So the
// test binary also acts as other programs, selected by its first argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		if part, ok := parts[os.Args[1]]; ok {
			if err := part(os.Args[2]); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	if err := testkit.EnterOwnMounts(); err != nil {
		fmt.Fprintln(os.Stderr, "fusefs:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

var parts = map[string]func(mountpoint string) error{
	"part-check":  func(path string) error { _, err := emptyDirectory(path); return err },
	"part-umount": func(path string) error { _, err := Unmount(context.Background(), path, false); return err },
}

// play runs a part in another process and returns its output.
func play(t *testing.T, part, argument string) (string, error) {
	t.Helper()
	return command(t, os.Args[0], part, argument)
}

// command runs a program outside any mount and returns its standard output.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = "/"
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w: %s", filepath.Base(args[0]), err, exit.Stderr)
	}
	return string(out), err
}

// python runs a program with arguments and returns its standard output.
func python(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := command(t, append([]string{testkit.Python(t), "-c", program}, args...)...)
	testkit.Must(t, err)
	return strings.TrimSpace(out)
}

// needMounts skips a test, with a message, if mounting is impossible.
func needMounts(t *testing.T) {
	t.Helper()
	if c := Probe(); c.Device != "" {
		t.Skipf("SKIPPED: no mount can be tested without /dev/fuse: %s", c.Device)
	}
	if _, err := findFusermount(); err != nil && !privileged() {
		t.Skipf("SKIPPED: no mount can be tested: %v", err)
	}
}

func needPassthrough(t *testing.T) {
	t.Helper()
	if c := Probe(); !c.Passthrough {
		t.Skipf("SKIPPED: passthrough cannot be tested here: %s", c.Reason)
	}
}

// mounted mounts a fake source for the duration of a test. Unmounting must succeed: a file
// that is still open is a bug in the test or in the mount.
func mounted(t *testing.T, src *fakeSource, o Options) *Session {
	t.Helper()
	needMounts(t)
	if o.ReadPath == "passthrough" {
		needPassthrough(t)
	}
	if o.List == nil {
		o.List = listed
	}
	s, err := mount(t.TempDir(), src, o)
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := s.Unmount(); err != nil {
			t.Errorf("at the end of the test: %v", err)
			if err := s.Detach(); err != nil {
				t.Error(err)
			}
			return
		}
		if _, live, twice := src.counts(); live != 0 || twice {
			t.Errorf("%d files are open after the mount; closed twice: %v", live, twice)
		}
	})
	return s
}

// A process is a program that runs alongside a test and exchanges lines with it.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(args[0], args[1:]...)}
	p.cmd.Dir = "/"
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	testkit.Must(t, err)
	p.out = bufio.NewReader(out)
	testkit.Must(t, p.cmd.Start())
	t.Cleanup(func() { // for tests that failed half-way
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// expect reads a line of the process's output.
func (p *process) expect(t *testing.T, want string) {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if line = strings.TrimSpace(line); line != want {
		t.Fatalf("the process said %q (%v), not %q", line, err, want)
	}
}

// tell writes a line to the process.
func (p *process) tell(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (p *process) kill(t *testing.T, signal syscall.Signal) {
	t.Helper()
	testkit.Must(t, p.cmd.Process.Signal(signal))
}

// batchPath is the path of a batch of the fake source below a mountpoint.
func batchPath(mountpoint string, shard, epoch, batch int, f layout.Form) string {
	return fmt.Sprintf("%s/shard-%d/epoch-%d/%s.%s", mountpoint, shard, epoch, layout.BatchName(batch), f.Ext())
}

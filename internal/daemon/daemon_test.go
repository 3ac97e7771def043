package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary act as a daemon that says when it is ready, and as the command
// that ends it.
func TestMain(m *testing.M) {
	pid := filepath.Join(os.Args[len(os.Args)-1], "pid")
	switch slices.Concat(os.Args, []string{"", ""})[1] {
	case "mount":
		must(os.WriteFile(pid, fmt.Append(nil, os.Getpid()), 0o600))
		fallthrough
	case "live":
		tell("STATUS=not yet", nil)
		tell("READY=1", nil)
		time.Sleep(time.Hour) // until it is killed
	case "stranger": // pretends that another user's process says it
		who := unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getppid()), Uid: 12345})
		tell("READY=1", who)
		time.Sleep(time.Hour) // until it is killed
	case "umount":
		text, err := os.ReadFile(pid)
		must(err)
		number, err := strconv.Atoi(string(text))
		must(err)
		must(syscall.Kill(number, syscall.SIGTERM))
		must(os.Remove(pid))
	default:
		os.Exit(m.Run())
	}
}

// tell sends a message to the process that waits in Start.
func tell(message string, control []byte) {
	name := strings.Replace(os.Getenv("NOTIFY_SOCKET"), "@", "\x00", 1)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"})
	must(err)
	_, _, err = conn.WriteMsgUnix([]byte(message), control, &net.UnixAddr{Name: name, Net: "unixgram"})
	must(err)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func TestMount(t *testing.T) {
	parent := t.TempDir()
	m, err := NewMount(t.Context(), parent, os.Args[0], "--flag", "dataset")
	if err != nil {
		t.Fatal(err)
	}
	if args := m.Cmd.Args[1:]; !slices.Equal(args, []string{"mount", "--flag", "dataset", m.Dir}) || filepath.Dir(m.Dir) != parent {
		t.Errorf("started %q", args)
	}
	m.Pause()
	if err := m.Unmount(t.Context()); err != nil || m.Running() {
		t.Errorf("unmounted: %v", err)
	}
	if m, err := NewMount(t.Context(), parent, "sh", "dataset"); err == nil || m != nil || !strings.Contains(err.Error(), ": sh: ") {
		t.Errorf("a program without the command: %v", err)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestMountOfACommandThatIsInterrupted: the daemon ends, even if it is paused.
func TestMountOfACommandThatIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m, err := NewMount(ctx, t.TempDir(), os.Args[0], "dataset")
	if err != nil {
		t.Fatal(err)
	}
	m.Pause()
	cancel()
	<-m.Exited
	if err := m.Unmount(ctx); err == nil {
		t.Error("its directory is not empty, but was removed")
	}
}

func TestStart(t *testing.T) {
	p, err := Start(exec.Command(os.Args[0], "live"), time.Minute)
	if err != nil || !p.Running() {
		t.Fatal(err)
	}
	if err := p.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if <-p.Exited; p.Running() || p.Err == nil {
		t.Errorf("after its end: %v", p.Err)
	}
}

// TestStrangersAreNotHeard: that the tree is live is believed of the daemon, and of other processes
// of this user, but not of other users' processes.
func TestStrangersAreNotHeard(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can pretend to be another user")
	}
	p, err := Start(exec.Command(os.Args[0], "stranger"), time.Second)
	if err == nil || !p.Running() {
		t.Errorf("a stranger was believed, or could not speak: %v", err)
	}
	_ = p.Cmd.Process.Kill()
	<-p.Exited
}

func TestStartFails(t *testing.T) {
	if p, err := Start(exec.Command("sh", "-c", "exit 3"), time.Minute); err == nil || p == nil || p.Running() || err.Error() != "the daemon ended before its mount was live: exit status 3" {
		t.Errorf("a daemon that ends: %v", err)
	}
	p, err := Start(exec.Command("sleep", "60"), 50*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "not ready after 50ms") || !p.Running() {
		t.Errorf("a daemon that says nothing: %v", err)
	}
	_ = p.Cmd.Process.Kill()
	<-p.Exited
	if p, err := Start(exec.Command("/nowhere"), time.Minute); err == nil || p != nil {
		t.Errorf("no program: %v", err)
	}
}

package daemon

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary act as a daemon that says when it is ready.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "live" {
		name := strings.Replace(os.Getenv("NOTIFY_SOCKET"), "@", "\x00", 1)
		conn, err := net.Dial("unixgram", name)
		if err != nil {
			panic(err)
		}
		_, _ = conn.Write([]byte("READY=1"))
		time.Sleep(time.Hour) // until it is killed
	}
	os.Exit(m.Run())
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

func TestStartFails(t *testing.T) {
	if p, err := Start(exec.Command("sh", "-c", "exit 3"), time.Minute); err == nil || p == nil || p.Running() || !strings.Contains(err.Error(), "exit status 3") {
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

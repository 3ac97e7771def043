//go:build cuda && linux && cgo && (amd64 || arm64)

package gpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/fakecuda"
)

// A deed is what a process did with a GPU, which is one in host memory.
type deed struct {
	PID      int
	Error    string
	Is       []string // what the errors mean
	Wrong    bool     // bytes on the GPU were others than those copied there
	Reserved int64    // after Close
}

const deedVariable = "BATCHFS_TEST_DEED"

// TestDeed is what run runs as another process.
func TestDeed(t *testing.T) {
	which := os.Getenv(deedVariable)
	if which == "" {
		t.Skip("it is a part of other tests")
	}
	d := deed{PID: os.Getpid()}
	if err := d.do(which); err != nil {
		d.Error = err.Error()
		for name, meaning := range map[string]error{"memory": ErrMemory, "lost": ErrLost, "full": ErrFull} {
			if errors.Is(err, meaning) {
				d.Is = append(d.Is, name)
			}
		}
	}
	text, _ := json.Marshal(d)
	fmt.Printf("deed %s\n", text)
}

// do makes batches on the GPU from one buffer, as an engine does.
func (d *deed) do(which string) (err error) {
	found, err := Find("auto")
	if err != nil {
		return err
	}
	if which == "alone" && found.CannotShare() == nil {
		return errors.New("memory of a part of a GPU can be opened by others")
	}
	if which == "hastily" {
		found = hasty{found.(*driver)}
	}
	device := New(found, Options{})
	defer func() {
		err = errors.Join(err, device.Close())
		d.Reserved = device.Stats().Reserved
	}()
	if which == "nvjpeg" {
		return d.nvjpeg(device)
	}
	return d.decode(device, false)
}

func run(t *testing.T, driver *fakecuda.Driver, which string, c fakecuda.Config) (d deed, calls int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestDeed$")
	cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0", deedVariable+"="+which), driver.Env(c)...)
	out, err := cmd.CombinedOutput()
	_, after, _ := strings.Cut(string(out), "deed ")
	line, _, _ := strings.Cut(after, "\n")
	if err != nil || json.Unmarshal([]byte(line), &d) != nil {
		t.Fatalf("%+v: %v\n%s", c, err, out)
	}
	calls, alive, err := driver.Alive(d.PID)
	if err != nil {
		t.Fatal(err)
	}
	if hasty := which == "hastily"; hasty != (alive.Torn > 0) {
		t.Errorf("%s, %+v: %d copies of memory that was used again too early", which, c, alive.Torn)
	}
	alive.Torn = 0
	if !slices.Contains(d.Is, "lost") && alive != (fakecuda.Alive{}) { // else the end of the process frees it
		t.Errorf("%+v: %+v is left: %s", c, alive, d.Error)
	}
	if d.Reserved != 0 {
		t.Errorf("%+v: %d bytes are still reserved", c, d.Reserved)
	}
	return d, calls
}

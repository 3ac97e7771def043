//go:build cuda && linux && cgo && (amd64 || arm64)

package gpu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/cuda"
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

// do puts batches on the GPU from one buffer, as an engine does.
func (d *deed) do(which string) (err error) {
	found, err := Find("auto")
	if err != nil {
		return err
	}
	if strings.HasSuffix(which, " alone") && found.CannotShare() == nil {
		return errors.New("memory of a part of a GPU can be opened by others")
	}
	if which == "decode hastily" {
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
	if strings.HasPrefix(which, "decode") {
		return d.decode(device, false)
	}
	buffer, err := unix.Mmap(-1, 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	registered := device.Register(buffer)
	if registered == nil {
		defer device.Unregister(buffer)
	}
	err = registered
	for i := range byte(3) {
		slot, failed := device.Slot(int64(len(buffer)))
		if failed != nil {
			return errors.Join(err, failed)
		}
		defer slot.Release()
		copy(buffer, bytes.Repeat([]byte{i + 1}, len(buffer)))
		if which == "unsynchronised" { // as Run would be without waiting
			failed = found.(*driver).copying.do(func(_ *cuda.Thread, s *cuda.Stream) error { return s.ToDevice(cuda.Pointer(slot.Address()), buffer) })
		} else {
			failed = device.Run(Run{Put: []Put{{slot.Address(), buffer}}})
		}
		if failed == nil {
			d.Wrong = d.Wrong || !d.has(found.(*driver), slot, i+1)
		}
		err = errors.Join(err, failed)
	}
	return err
}

// has reports whether a slot is full of a byte, as another stream sees it now.
func (d *deed) has(on *driver, slot *Slot, value byte) bool {
	got := make([]byte, slot.size)
	err := on.memory.do(func(_ *cuda.Thread, s *cuda.Stream) error { return s.ToHost(got, cuda.Pointer(slot.Address())) })
	return err != nil || bytes.Equal(got, bytes.Repeat([]byte{value}, len(got)))
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
	if hasty := which == "decode hastily"; hasty != (alive.Torn > 0) && which != "unsynchronised" {
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

// TestDriver puts batches on a GPU through NVIDIA's interface. What is copied too late would be
// seen: without waiting for the copies, the bytes are others.
func TestDriver(t *testing.T) {
	driver, err := fakecuda.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	late := fakecuda.Config{Delay: 50 * time.Millisecond, Seed: 7}
	if d, _ := run(t, driver, "right", late); d.Wrong || d.Error != "" {
		t.Errorf("%+v", d)
	}
	if d, _ := run(t, driver, "unsynchronised", late); !d.Wrong {
		t.Errorf("copies that are not waited for went unnoticed: %+v", d)
	}
	if d, _ := run(t, driver, "right", fakecuda.Config{Memory: 1 << 20}); !slices.Contains(d.Is, "memory") {
		t.Errorf("%+v", d)
	}
}

// TestDriverFails has every call fail in turn: without memory, as not supported, and with the GPU
// lost. Nothing crashes, hangs, leaks or shows other bytes.
func TestDriverFails(t *testing.T) {
	t.Parallel()
	driver, err := fakecuda.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, calls := run(t, driver, "right", fakecuda.Config{})
	for code, meaning := range map[int]string{2: "memory", 719: "lost", 801: ""} {
		for n := 1; n <= calls; n++ {
			d, _ := run(t, driver, "right", fakecuda.Config{Failures: []fakecuda.Failure{{Function: "*", Nth: n, Code: code}}})
			if d.Wrong {
				t.Errorf("%d at call %d: other bytes", code, n)
			}
			if d.Error != "" && meaning != "" && !slices.Contains(d.Is, meaning) {
				t.Errorf("%d at call %d: %s", code, n, d.Error)
			}
		}
	}
}

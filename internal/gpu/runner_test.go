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

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/cuda"
	"github.com/batchfs/batchfs/internal/fakecuda"
	"github.com/batchfs/batchfs/internal/pixels"
	"github.com/batchfs/batchfs/internal/ptx"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// A deed is what a process did with a GPU in host memory.
type deed struct {
	PID      int
	Error    string
	Is       []string // what the errors mean
	Wrong    bool     // bytes on the GPU differed from those copied there
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
	testkit.Must(t, err)
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

// twoJPEGs is a batch whose second sample is damaged, and the expected content of the first slot.
func twoJPEGs(nvjpeg bool) (to Tensor, samples []Sample, want []byte, err error) {
	data, err := os.ReadFile("../../decode/testdata/samples/plain-37x21.jpg")
	if err != nil {
		return to, nil, nil, err
	}
	head, err := decode.ReadHeader(data, false)
	if err != nil {
		return to, nil, nil, err
	}
	size := resample.Options{Mode: resample.Stretch, Height: 16, Width: 24}
	transform := size.Choose(0, 0, head.Height, head.Width)
	want = make([]byte, 16*24*3)
	d := decode.NewDecoder(decode.Options{})
	defer d.Close()
	job := pixels.Options{}.Plan(head, transform, pixels.Target{Pix: want, Stride: 24 * 3})
	memory := make([]byte, job.Memory)
	task := job.Task(data, memory)
	if err := d.DecodeRegion(task.To, task.Data, task.Header, task.Region, task.Scale); err != nil {
		return to, nil, nil, err
	}
	for i := range task.To.Pix {
		if nvjpeg { // its pixels in tests
			task.To.Pix[i] ^= 1
		}
	}
	if err := job.Finish(memory); err != nil {
		return to, nil, nil, err
	}
	converter, err := layout.NewConverter(layout.Uint8, 3, layout.Normalization{})
	if err != nil {
		return to, nil, nil, err
	}
	to = Tensor{Spec: layout.Spec{N: 2, H: 16, W: 24, C: 3}, Converter: converter}
	job = pixels.Options{}.Plan(head, transform, pixels.Target{})
	damaged := slices.Concat(data[:len(data)-9], data[len(data)-2:])
	return to, []Sample{{0, job, data, nvjpeg}, {1, job, damaged, nvjpeg}}, want, nil
}

// A hasty driver does not wait for what it starts, so its memory is used again too early.
type hasty struct{ *driver }

func (d hasty) Run(r Run) error {
	k := <-d.running
	defer func() { d.running <- k }()
	return k.do(func(t *cuda.Thread, s *cuda.Stream) error { return errors.Join(k.kernels.load(t), k.start(r, s)) })
}

// decode makes a batch three times from one buffer, as the engine does. The last time, the batch is
// the upper half of a slot, and is copied to the lower half.
func (d *deed) decode(device *Device, nvjpeg bool) error {
	to, samples, want, err := twoJPEGs(nvjpeg)
	if err != nil {
		return err
	}
	p, err := NewPlan(to, samples)
	if err != nil {
		return err
	}
	half := to.Spec.Bytes()
	host, err := unix.Mmap(-1, 0, (p.Host()+4095)&^4095, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	err = device.Register(host)
	if err == nil {
		defer device.Unregister(host)
	}
	for range 2 { // in turns, by two runners
		clear(host)
		p.Put(host, 0)
		p.Put(host, 1)
		tensor, left, failed := device.Make(p, host)
		if failed == nil {
			d.Wrong = d.Wrong || !slices.Equal(left, []int{1}) || !bytes.Equal(tensor[:len(want)], want)
		}
		err = errors.Join(err, failed)
	}
	if device.CannotShare() != nil {
		return err
	}
	slot, failed := device.Slot(2 * half)
	if failed != nil {
		return errors.Join(err, failed)
	}
	defer slot.Release()
	to.In, to.Spec.N = slot, 4
	for i := range samples {
		samples[i].Slot += 2
	}
	if p, failed = NewPlan(to, samples); failed != nil {
		return errors.Join(err, failed)
	}
	clear(host)
	p.Put(host, 0)
	p.Put(host, 1)
	tensor, left, failed := device.Make(p, host)
	if failed != nil {
		return errors.Join(err, failed)
	}
	d.Wrong = d.Wrong || !slices.Equal(left, []int{1}) || len(tensor) > 0
	// What is copied without kernels has arrived, and its source may be used again.
	from, n, ones := slot.Address(), int(half/2), bytes.Repeat([]byte{1}, int(half/2))
	copy(host, ones)
	failed = device.Run(Run{Put: []Put{{from + uint64(n), host[:n]}}})
	clear(host)
	if failed == nil {
		failed = device.Run(Run{Within: []Within{{from, from + uint64(half), half / 2}}, Back: []Back{{host[:half], from}}})
	}
	if failed == nil {
		d.Wrong = d.Wrong || !bytes.Equal(host[:half], slices.Concat(want, ones))
	}
	return errors.Join(err, failed)
}

// nvjpeg decodes by that library.
func (d *deed) nvjpeg(device *Device) error {
	name, err := device.OpenNVJPEG(false)
	if err != nil {
		return err
	}
	d.Wrong = name != "nvJPEG 12.4.0, hardware, on Fake GPU 0"
	return d.decode(device, true)
}

func decodingDriver(t *testing.T) *fakecuda.Driver {
	t.Helper()
	driver, err := fakecuda.Build(t.TempDir())
	testkit.Must(t, err)
	code, err := ptx.ToC(PTX)
	if err == nil {
		err = driver.AddModule(PTX, code)
	}
	testkit.Must(t, err)
	return driver
}

// TestMake decodes through NVIDIA's interface, by the kernels' PTX.
func TestMake(t *testing.T) {
	t.Parallel()
	driver := decodingDriver(t)
	if d, _ := run(t, driver, "decode", fakecuda.Config{Delay: 20 * time.Millisecond, Seed: 3}); d.Wrong || d.Error != "" {
		t.Errorf("%+v", d)
	}
	if d, _ := run(t, driver, "hastily", fakecuda.Config{Delay: 50 * time.Millisecond, Seed: 3}); !d.Wrong {
		t.Errorf("a batch that is not waited for went unnoticed: %+v", d)
	}
	if d, _ := run(t, driver, "decode", fakecuda.Config{PTX: 50}); d.Error == "" || d.Wrong {
		t.Errorf("an old driver: %+v", d)
	}
	if d, _ := run(t, driver, "alone", fakecuda.Config{MIG: true}); d.Wrong || d.Error != "" {
		t.Errorf("a part of a GPU: %+v", d)
	}
	if d, _ := run(t, driver, "decode", fakecuda.Config{Memory: 1 << 20}); !slices.Contains(d.Is, "memory") {
		t.Errorf("little memory: %+v", d)
	}
	twice := fakecuda.Config{Failures: []fakecuda.Failure{{Function: "cuModuleLoadData", Nth: 2, Code: 2}}}
	if d, _ := run(t, driver, "decode", twice); d.Error != "" {
		t.Errorf("the kernels are loaded twice: %+v", d)
	}
}

// TestMakeFails makes every call fail in turn, and every copy and kernel: nothing leaks, and no
// wrong bytes are returned.
func TestMakeFails(t *testing.T) {
	t.Parallel()
	driver := decodingDriver(t)
	late := fakecuda.Config{Delay: time.Millisecond, Seed: 5}
	_, calls := run(t, driver, "decode", late)
	failures := []fakecuda.Failure{{Function: "kernel", Nth: 1, Code: 700}, {Function: "kernel", Nth: 3, Code: 719}, {Function: "copy", Nth: 2, Code: 719}}
	for n := 1; n <= calls; n++ {
		failures = append(failures, fakecuda.Failure{Function: "*", Nth: n, Code: []int{2, 719, 801}[n%3]})
	}
	unnoticed := failEach(t, driver, "decode", late, failures)
	if failed := len(failures) - len(unnoticed); failed < calls/2 {
		t.Errorf("of %d failures, %d were noticed", len(failures), failed)
	}
}

// failEach does a deed once with each failure, and returns the failures that it did not notice.
// None may change a byte.
func failEach(t *testing.T, driver *fakecuda.Driver, deed string, c fakecuda.Config, failures []fakecuda.Failure) (unnoticed []fakecuda.Failure) {
	t.Helper()
	for _, f := range failures {
		c.Failures = []fakecuda.Failure{f}
		d, _ := run(t, driver, deed, c)
		if d.Wrong {
			t.Errorf("%+v: other bytes", f)
		}
		meaning := map[int]string{2: "memory", 700: "lost", 719: "lost"}[f.Code]
		if d.Error != "" && deed != "nvjpeg" && meaning != "" && !slices.Contains(d.Is, meaning) {
			t.Errorf("%+v: %s", f, d.Error)
		}
		if d.Error == "" {
			unnoticed = append(unnoticed, f)
		}
	}
	return unnoticed
}

// TestNVJPEGFails makes every call of nvJPEG fail in turn, and some of the driver: nothing leaks,
// and no failure is taken for a refusal.
func TestNVJPEGFails(t *testing.T) {
	t.Parallel()
	driver := decodingDriver(t)
	if d, _ := run(t, driver, "nvjpeg", fakecuda.Config{}); !strings.Contains(d.Error, "libnvjpeg.so.12") || strings.Contains(d.Error, "\n") {
		t.Errorf("without the library: %+v", d)
	}
	testkit.Must(t, driver.AddNVJPEG())
	late := fakecuda.Config{Delay: time.Millisecond, Seed: 5}
	_, calls := run(t, driver, "nvjpeg", late)
	var failures []fakecuda.Failure
	for i, f := range []string{"JpegStreamParseHeader", "DecodeBatchedSupportedEx", "DecodeBatchedInitialize", "DecodeBatched", // tried twice
		"CreateEx", "JpegStateCreate", "JpegStreamCreate", "DecodeParamsCreate", "DecodeParamsSetOutputFormat",
		"DecodeParamsDestroy", "JpegStreamDestroy", "JpegStateDestroy", "Destroy"} {
		failures = append(failures, fakecuda.Failure{Function: "nvjpeg" + f, Nth: min(i/4, 1), Code: 6}, fakecuda.Failure{Function: "nvjpeg" + f, Nth: 2, Code: 5})
	}
	for n := 1; n <= calls; n += 8 { // TestMakeFails has all
		failures = append(failures, fakecuda.Failure{Function: "*", Nth: n, Code: []int{2, 719, 801}[n/8%3]})
	}
	unnoticed := failEach(t, driver, "nvjpeg", late, failures)
	for _, f := range unnoticed {
		if f.Function != "*" {
			t.Errorf("%+v went unnoticed", f)
		}
	}
	if failed := len(failures) - len(unnoticed); failed < len(failures)*3/4 {
		t.Errorf("of %d failures, %d were noticed", len(failures), failed)
	}
}

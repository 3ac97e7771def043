// Package fakecuda is a fake NVIDIA driver in host memory, for tests: a libcuda.so.1 that processes
// find instead of the real one.
//
// It keeps what the driver promises and no more. Streams are threads, and everything asynchronous
// happens later, after a random time: a result that is read without waiting for it is poison (bytes
// of 219), as is memory that was never written, and a source that is reused too early is copied as
// it is then. Copies of unregistered host memory wait. A query first says that work is not done,
// unless somebody waited for it. Calls that need a current context fail without one, and contexts
// take memory ([Config]). Calls that are not allowed while a stream is captured end the capture.
// Other processes can open memory if they see this one's /proc. Kernels are C code made from their
// PTX ([Driver.AddModule]); a kernel that leaves its memory ends the device. Every call can be made
// to fail ([Failure]). Live objects are counted ([Driver.Alive]). [Driver.AddNVJPEG] adds the
// library for JPEGs.
package fakecuda

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed driver nvjpeg
var source embed.FS

// A Driver is a directory with the library.
type Driver struct{ dir string }

// Build makes the driver in the caller's directory. The missing functions are left out, as in an
// old driver. It needs a C compiler.
func Build(dir string, missing ...string) (*Driver, error) {
	d := &Driver{dir}
	if err := os.CopyFS(d.at("source"), source); err != nil {
		return nil, err
	}
	exported := "{ global: cu*; local:"
	for _, function := range append(missing, "*") {
		exported += " " + function + ";"
	}
	if err := os.WriteFile(d.at("exported"), []byte(exported+" };"), 0o644); err != nil {
		return nil, err
	}
	for _, sub := range []string{"state", "modules"} {
		if err := os.Mkdir(d.at(sub), 0o755); err != nil {
			return nil, err
		}
	}
	parts, err := filepath.Glob(d.at("source", "driver", "*.c"))
	if err != nil {
		return nil, err
	}
	return d, compile(d.at("libcuda.so.1"), "", append(parts, "-Wall", "-Wextra", "-Werror", "-Wl,--version-script="+d.at("exported"))...)
}

func (d *Driver) at(parts ...string) string { return filepath.Join(d.dir, filepath.Join(parts...)) }

// compile makes a shared library from C code in a string and in files.
func compile(output, code string, arguments ...string) error {
	cmd := exec.Command("cc", append([]string{"-std=gnu11", "-O1", "-g", "-fwrapv", "-shared", "-fPIC", "-pthread", "-o", output}, arguments...)...)
	cmd.Stdin = strings.NewReader(code)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cc: %w\n%s", err, out)
	}
	return nil
}

// AddModule lets processes load PTX. code is the C code that internal/ptx makes of it.
func (d *Driver) AddModule(ptx, code string) error {
	h := fnv.New64a()
	h.Write([]byte(ptx))
	return compile(d.at("modules", fmt.Sprintf("%016x.so", h.Sum64())), code, "-w", "-x", "c", "-")
}

// AddNVJPEG adds libnvjpeg.so.12, without the missing functions, as if it were old. It uses
// libjpeg-turbo, which the compiler must find.
func (d *Driver) AddNVJPEG(missing ...string) error {
	args := []string{d.at("source", "nvjpeg", "nvjpeg.c"), "-ljpeg", "-Wall", "-Wextra", "-Werror"}
	for _, function := range missing {
		args = append(args, "-D"+function+"=lacking_"+function)
	}
	return compile(d.at("libnvjpeg.so.12"), "", args...)
}

// A Failure is an error that a call returns instead of doing its work; only calls that release
// something still do that.
type Failure struct {
	Function string // without _v2; "*" is any of the driver's; "copy", "set" and "kernel" are later work of streams
	Nth      int    // from 1, counting a process's calls of that function; 0: all
	Code     int    // after an error that ends the device, such as 214, 700 or 719, all calls return it
}

// Config is how the driver behaves. Comments give the default for a zero value.
type Config struct {
	Version  int           // 12040
	PTX      int           // the latest version of PTX that it compiles, 84 for 8.4
	Devices  int           // 1; fewer are a Failure of cuInit
	Visible  string        // CUDA_VISIBLE_DEVICES: all devices
	Memory   int64         // of each device, 256 MiB
	Context  int64         // device memory that a context takes, 0
	Delay    time.Duration // upper bound of the random delay of streams' work
	Seed     int64         // of the delays
	Shared   bool          // all processes together have Memory, not each
	MIG      bool          // the device is part of a GPU
	NVJPEG   int           // version of nvJPEG, 12004
	NoEngine bool          // the device has no engine for JPEGs
	Failures []Failure
}

// Env returns the environment variables for a process that should find the driver.
func (d *Driver) Env(c Config) []string {
	settings := "state=" + d.at("state") + " modules=" + d.at("modules")
	set := func(key string, value int64) {
		if value != 0 {
			settings += " " + key + "=" + strconv.FormatInt(value, 10)
		}
	}
	set("version", int64(c.Version))
	set("isa", int64(c.PTX))
	set("devices", int64(c.Devices))
	set("memory", c.Memory)
	set("context", c.Context)
	set("delay", c.Delay.Microseconds())
	set("seed", c.Seed)
	if c.Shared {
		settings += " shared=1"
	}
	if c.MIG {
		set("mig", 1)
	}
	var failures []string
	nvjpeg := ""
	for _, f := range c.Failures {
		if strings.HasPrefix(f.Function, "nvjpeg") {
			nvjpeg += fmt.Sprintf("%s=%d:%d ", f.Function, f.Nth, f.Code)
			continue
		}
		failures = append(failures, fmt.Sprintf("%s:%d:%d", f.Function, f.Nth, f.Code))
	}
	if len(failures) > 0 {
		settings += " fail=" + strings.Join(failures, ",")
	}
	if c.NVJPEG != 0 {
		nvjpeg += fmt.Sprintf("version=%d ", c.NVJPEG)
	}
	if c.NoEngine {
		nvjpeg += "engine=0"
	}
	visible := "0"
	for i := 1; i < c.Devices; i++ {
		visible += "," + strconv.Itoa(i)
	}
	return []string{
		"LD_LIBRARY_PATH=" + d.dir, "FAKE_CUDA=" + settings, "FAKE_NVJPEG=" + nvjpeg,
		"CUDA_VISIBLE_DEVICES=" + cmp.Or(c.Visible, visible),
	}
}

// Alive counts what a process has made and not released, up to now or up to its end, and forbidden
// actions.
type Alive struct {
	Contexts, Allocations, Bytes, Registrations, Imports, Streams, Events, Modules int64
	Torn                                                                           int64 // copies of host memory that changed before they were done
}

// counts are the driver's counts for a process.
type counts struct {
	Calls       int64
	Alive       Alive
	Own, Opened int64
}

func (d *Driver) counts(pid int) (c counts, err error) {
	b, err := os.ReadFile(d.at("state", strconv.Itoa(pid)))
	if err == nil {
		err = binary.Read(bytes.NewReader(b), binary.NativeEndian, &c)
	}
	return c, err
}

// Alive returns how many calls a process has made so far, and what is alive.
func (d *Driver) Alive(pid int) (calls int, alive Alive, err error) {
	c, err := d.counts(pid)
	return int(c.Calls), c.Alive, err
}

// Opened returns how many devices a process has initialized.
func (d *Driver) Opened(pid int) (devices int, err error) {
	c, err := d.counts(pid)
	return int(c.Opened), err
}

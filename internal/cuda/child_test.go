//go:build cuda && linux && cgo && (amd64 || arm64)

package cuda

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/batchfs/batchfs/internal/fakecuda"
)

// A part runs in a process of this test program, which finds a driver of its own.
var parts = map[string]func(arguments []string) (any, error){
	"devices": partDevices,
	"all":     partAll,
	"import":  partImport,
	"jpegs":   partJPEGs,
}

// A report is how a part ended.
type report struct {
	PID    int
	Result json.RawMessage
	Error  string
	Code   int      // of an Error
	Is     []string // which of the package's errors it is
}

var sentinels = map[string]error{"driver": ErrNoDriver, "old": ErrOldDriver, "device": ErrNoDevice, "memory": ErrMemory, "lost": ErrLost,
	"nvJPEG": ErrNoNVJPEG, "old nvJPEG": ErrOldNVJPEG, "failed": ErrNVJPEG}

// driver is the driver that most parts find.
var driver *fakecuda.Driver

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if part, ok := parts[os.Args[1]]; ok {
			os.Exit(runPart(part))
		}
	}
	os.Exit(runTests(m))
}

func runPart(part func([]string) (any, error)) int {
	result, err := part(os.Args[2:])
	r := report{PID: os.Getpid()}
	if r.Result, _ = json.Marshal(result); err != nil {
		r.Error = err.Error()
	}
	var e *Error
	if errors.As(err, &e) {
		r.Code = e.Code
	}
	for name, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			r.Is = append(r.Is, name)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "batchfs-cuda-")
	if err == nil {
		defer os.RemoveAll(dir)
		if driver, err = fakecuda.Build(dir); err == nil {
			err = driver.AddModule(testPTX, testModule)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// start runs a part with variables in its environment.
func start(t *testing.T, env []string, arguments ...string) (r report) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", arguments...)
	cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), env...) // by default the race detector waits a second
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%q with %q: %v\n%s", arguments, env, err, out)
	} else if err := json.Unmarshal(out, &r); err != nil {
		t.Errorf("%v in %s", err, out)
	}
	return r
}

// run runs a part with a driver. It returns the report, and the number of calls; nothing may be
// left alive.
func run(t *testing.T, d *fakecuda.Driver, c fakecuda.Config, arguments ...string) (r report, calls int) {
	t.Helper()
	r = start(t, d.Env(c), arguments...)
	calls, alive, err := d.Alive(r.PID)
	if alive != (fakecuda.Alive{}) || err != nil {
		t.Errorf("%q with %+v left %+v behind (%v): %s", arguments, c, alive, err, r.Error)
	}
	return r, calls
}

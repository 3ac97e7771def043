package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
)

// childVariable holds the GPU that a child process asks for.
const childVariable = "MACHINE_TEST_CHILD"

// A childReport is what a new process of the test's own program finds with another NVML library.
type childReport struct {
	Processors  Processors
	Recommended [2]CPUs // what NVML recommends for the GPU, asked for twice
	Missing     int     // returned by a function that the library lacks
}

// callMissing calls such a function; nil in a build without NVML.
var callMissing func() int

func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) != "" {
		greedyMount()
		return
	}
	if gpu, isChild := os.LookupEnv(childVariable); isChild {
		if err := child(gpu); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func child(gpu string) (err error) {
	var r childReport
	if r.Processors, err = FindProcessors(gpu); err != nil {
		return err
	}
	r.Recommended = [2]CPUs{recommended(gpu, 64), recommended(gpu, 64)}
	if callMissing != nil {
		r.Missing = callMissing()
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// runChild starts the child.
func runChild(t *testing.T, gpu string, env ...string) childReport {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	// By default the race detector waits a second at exit.
	cmd.Env = append(append(os.Environ(), childVariable+"="+gpu, "GORACE=atexit_sleep_ms=0"), env...)
	out, err := testkit.Output(cmd, time.Minute)
	testkit.Must(t, err)
	var r childReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return r
}

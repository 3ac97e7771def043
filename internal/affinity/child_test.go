package affinity

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// childVariable holds the task of a child process, a childTask.
const childVariable = "AFFINITY_TEST_CHILD"

// A childTask is done by a new process of the test's own program: on the CPUs of the thread that
// started it, or with another NVML library.
type childTask struct{ GPU, List string }

// A childReport is the result.
type childReport struct {
	Machine     Machine
	Recommended [2]Set // what NVML recommends for the GPU, asked for twice
	Error       string // of the list
	Got         []string
	Missing     int // returned by a function that the library lacks
}

// callMissing calls such a function; nil in a build without NVML.
var callMissing func() int

func TestMain(m *testing.M) {
	if text, isChild := os.LookupEnv(childVariable); isChild {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func child(text string) (err error) {
	var task childTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return err
	}
	var r childReport
	if r.Machine, err = ThisMachine(task.GPU); err != nil {
		return err
	}
	if task.GPU != NoGPU {
		r.Recommended = [2]Set{recommended(task.GPU, 64), recommended(task.GPU, 64)}
	}
	if r.Got, err = childMasks(task.List, r.Machine); err != nil {
		r.Error = err.Error()
	}
	if callMissing != nil {
		r.Missing = callMissing()
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// childMasks pins a thread for each entry of the list and one more.
func childMasks(text string, m Machine) ([]string, error) {
	list, err := parse(text)
	if err != nil {
		return nil, err
	}
	sets, err := assign(list, len(list)+1, m)
	if err != nil {
		return nil, err
	}
	return kernelMasks(sets)
}

// runChild starts the child from the calling thread, whose CPUs it inherits.
func runChild(t *testing.T, task childTask, env ...string) childReport {
	t.Helper()
	text, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	// By default the race detector waits a second at exit.
	cmd.Env = append(append(os.Environ(), childVariable+"="+string(text), "GORACE=atexit_sleep_ms=0"), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	var r childReport
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return r
}

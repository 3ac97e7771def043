package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batchfs/batchfs/internal/testkit"
)

// sbatch does what examples/array_slurm.sh needs of Slurm: it runs an array's tasks one after
// another, and a job only after the one that it depends on.
const sbatch = `#!/bin/sh
set -eu
last=
for flag; do
	case $flag in
	--parsable) ;;
	--array=0-*) last=${flag#--array=0-} ;;
	--dependency=afterok:7) ;;
	*) break ;;
	esac
	shift
done
k=0
while [ "$k" -le "${last:-0}" ]; do
	if [ -n "$last" ]; then export SLURM_ARRAY_TASK_ID=$k SLURM_ARRAY_TASK_COUNT=$((last + 1)); fi
	SLURM_JOB_ID=$((k + 7)) "$@" >&2
	k=$((k + 1))
done
echo 7
`

// rayTest runs examples/array_ray.py on a cluster of two nodes. When both are making a part, one of
// them is killed; the commands wait until then.
const rayTest = `
import os, sys, threading
import ray
from ray.cluster_utils import Cluster
import array_ray
gate, dataset, directory = sys.argv[1:]
os.mkfifo(gate + "/started")
os.mkfifo(gate + "/go")
started, go = (os.open(gate + "/" + name, os.O_RDWR) for name in ("started", "go"))
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
doomed = cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, log_to_driver=False)
def tree(pid):
    return [pid] + [p for thread in os.listdir(f"/proc/{pid}/task")
                    for child in open(f"/proc/{pid}/task/{thread}/children").read().split() for p in tree(int(child))]
def kill():
    for _ in range(2):
        os.read(started, 1)
    open(gate + "/open", "w").close()
    processes = tree(doomed.all_processes["raylet"][0].process.pid)
    cluster.remove_node(doomed, allow_graceful=False)
    for pid in processes:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            pass
    os.write(go, b"\n" * 16)
killer = threading.Thread(target=kill)
killer.start()
array_ray.index(dataset, directory, 4)
killer.join()
ray.shutdown()
cluster.shutdown()
`

// rayGate is a batchfs that waits at a gate until the gate is open.
const rayGate = `#!/bin/sh
echo "$@" >> GATE/runs
if [ ! -e GATE/open ]; then
	printf x > GATE/started
	read -r _ < GATE/go
fi
exec BINARY "$@"
`

// TestArrayJobs: the examples for array jobs make the index that one run makes.
func TestArrayJobs(t *testing.T) {
	data := filepath.Join(scratch(t), "photos")
	runProgram(t, "", nil, suite.binary, "gen", "--out", data, "--images", "40", "--kind", "mixed", "--classes", "3")
	err := filepath.WalkDir(data, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, time.Time{}, time.Unix(1_600_000_000, 123456789)) // so that the index can be sure that nothing changes
	})
	check(t, err)
	whole := filepath.Join(scratch(t), "whole")
	runProgram(t, "", nil, suite.binary, "index", data, "--index-at", whole)
	path := func(first string) string {
		return "PATH=" + strings.Join([]string{first, filepath.Dir(suite.binary), os.Getenv("PATH")}, ":")
	}
	same := func(t *testing.T, directory string) {
		t.Helper()
		want, err := filepath.Glob(whole + "/*.facts")
		if err != nil || len(want) != 1 {
			t.Fatal(want, err)
		}
		if !bytes.Equal(mustRead(t, want[0]), mustRead(t, filepath.Join(directory, filepath.Base(want[0])))) {
			t.Error("the parts make another index")
		}
	}
	t.Run("Slurm", func(t *testing.T) {
		bin, directory := scratch(t), scratch(t)
		check(t, os.WriteFile(filepath.Join(bin, "sbatch"), []byte(sbatch), 0o755))
		runProgram(t, "", []string{path(bin)}, "../examples/array_slurm.sh", data, directory, "5")
		same(t, directory)
	})
	t.Run("Kubernetes", func(t *testing.T) {
		directory, text := scratch(t), string(mustRead(t, "../examples/array_kubernetes.yaml"))
		commands := regexp.MustCompile(`(?m)^ +command: \[sh, -c, '(.+)'\]$`).FindAllStringSubmatch(text, -1)
		if len(commands) != 2 || !strings.Contains(text, "completions: 16\n") {
			t.Fatalf("%q", commands)
		}
		env := []string{"DATASET=" + data, "INDEX=" + directory}
		for k := range 16 {
			runProgram(t, "", append(env, "JOB_COMPLETION_INDEX="+strconv.Itoa(k)), "sh", "-c", commands[0][1])
		}
		runProgram(t, "", env, "sh", "-c", commands[1][1])
		same(t, directory)
	})
	t.Run("Ray", func(t *testing.T) {
		python := testkit.Python(t, "ray")
		bin, directory := scratch(t), scratch(t)
		gate := strings.NewReplacer("GATE", bin, "BINARY", suite.binary).Replace(rayGate)
		check(t, os.WriteFile(filepath.Join(bin, "batchfs"), []byte(gate), 0o755))
		examples, err := filepath.Abs("../examples")
		check(t, err)
		out := runProgram(t, "", []string{path(bin), "PYTHONPATH=" + examples, "RAY_USAGE_STATS_ENABLED=0"},
			python, "-c", rayTest, bin, data, directory)
		if runs := strings.Count(string(mustRead(t, filepath.Join(bin, "runs"))), "\n"); runs < 6 {
			t.Errorf("batchfs ran %d times, but not for 4 parts, for one of them again, and to join them:\n%s", runs, out)
		}
		same(t, directory)
	})
}

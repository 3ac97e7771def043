package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/batchfs/batchfs/internal/dataset"
)

// scratch is a directory for files that tests share.
var scratch string

// TestMain also lets the test binary act as a process that converts and dies at a given step.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArgument {
		if err := child(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	var err error
	if scratch, err = os.MkdirTemp("", "convert-test-*"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(scratch)
	os.Exit(status)
}

const childArgument = "convert-and-die"

// child converts DATASET to OUT with OPTIONS and kills itself at STEP.
func child(args []string) error {
	var plain childOptions
	if err := json.Unmarshal([]byte(args[2]), &plain); err != nil {
		return err
	}
	o := plain.options()
	last, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return err
	}
	var steps atomic.Int64
	o.step = func() {
		if steps.Add(1) >= last {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // wait for the signal
		}
	}
	ds, err := openDataset(args[0])
	if err != nil {
		return err
	}
	defer ds.Close()
	_, err = Write(context.Background(), ds, args[1], o)
	return err
}

// childOptions are the options that a child accepts.
type childOptions struct {
	Shares   Shares
	Format   Format
	Seed     uint64
	Workers  int
	Manifest string
	Part     dataset.Share
}

func (c childOptions) options() Options {
	return Options{Shares: c.Shares, Format: c.Format, Seed: c.Seed, Workers: c.Workers, Manifest: c.Manifest, Part: c.Part}
}

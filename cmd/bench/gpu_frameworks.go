package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/batchfs/batchfs/internal/daemon"
)

//go:embed gpu_frameworks.py
var frameworkProgram string

// frameworks hands batches to the frameworks that are installed, and compares the bytes.
func frameworks(ctx context.Context, s *setup) ([]row, error) {
	python := s.python
	if _, err := exec.LookPath(python); err != nil {
		python = "python3"
	}
	return mountOnGPU(ctx, s, func(m *daemon.Mount) (rows []row, err error) {
		for _, module := range []string{"torch", "cupy", "jax"} {
			s.progress.step(module, 0, 1)
			cmd := exec.CommandContext(ctx, python, "-c", frameworkProgram, module, m.Dir, m.Batch(0, 0, 0), m.Batch(0, 1, 0))
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "XLA_PYTHON_CLIENT_PREALLOCATE=false") // JAX would take most of the GPU's memory
			out, err := cmd.Output()
			if err != nil {
				return rows, fmt.Errorf("%s: %w\n%s", module, err, stderr(err))
			}
			r, err := frameworkRow(module, out)
			if err != nil {
				return rows, err
			}
			rows = append(rows, r)
		}
		return rows, nil
	})
}

// frameworkRow makes a row of what gpu_frameworks.py printed.
func frameworkRow(module string, out []byte) (r row, err error) {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var said struct {
		What, Skipped string
		Opens         []float64
		Wrong         []string
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &said); err != nil {
		return r, fmt.Errorf("%s: it printed %q", module, out)
	}
	switch {
	case said.Skipped != "":
		return row{what: module, skipped: said.Skipped}, nil
	case len(said.Wrong) > 0 || len(said.Opens) == 0:
		return r, fmt.Errorf("%s: wrong bytes in %q, of %d opens", said.What, said.Wrong, len(said.Opens))
	}
	note := fmt.Sprintf("p99 %.3f ms, %d opens of finished batches; the bytes are right", 1e3*quantile(said.Opens, .99), len(said.Opens))
	return once(said.What+": open of .cuda to array, p50", "ms", 1e3*quantile(said.Opens, .5), note), nil
}

// stderr is what a command that failed said.
func stderr(err error) string {
	if ended, ok := err.(*exec.ExitError); ok {
		return strings.TrimSpace(string(ended.Stderr))
	}
	return ""
}

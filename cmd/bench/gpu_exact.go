package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"

	"github.com/batchfs/batchfs/gpu"
	"github.com/batchfs/batchfs/internal/parallel"
)

// exactBatch is how many samples are made at once.
const exactBatch = 16

// A tally says what became of random samples.
type tally struct {
	samples, decoded, left int // decoded by the kernels, and left by them to a processor
	bytes, differ          int
	first                  string // difference
}

func (t *tally) add(o tally) {
	t.samples, t.decoded, t.left = t.samples+o.samples, t.decoded+o.decoded, t.left+o.left
	t.bytes, t.differ = t.bytes+o.bytes, t.differ+o.differ
	if t.first == "" {
		t.first = o.first
	}
}

// exactness has the GPU make random samples, of whole and of damaged files, and compares them with what libjpeg-turbo, the
// resizer and a layout.Writer make on processors.
func exactness(ctx context.Context, s *setup) ([]row, error) {
	mixed := imageSet{kind: "mixed", images: min(400, s.cases)}
	if err := s.need(ctx, &mixed); err != nil {
		return nil, err
	}
	files, err := contents(append(mixed.files, s.photos.files[:min(32, s.photos.images)]...))
	if err != nil {
		return nil, err
	}
	driver, err := gpu.Find(s.gpu.UUID)
	if err != nil {
		return nil, err
	}
	defer driver.Close()
	var mu sync.Mutex
	var all tally
	progress := func(done, total int64) { s.progress.step("batches", int(done)-1, int(total)) }
	err = parallel.Each(ctx, runtime.NumCPU(), (s.cases+exactBatch-1)/exactBatch, progress, func(_ context.Context, items iter.Seq[int]) (err error) {
		c := newChecker(driver, files)
		defer func() { err = errors.Join(err, c.close()) }()
		for k := range items {
			found, err := c.check(uint64(k), min(exactBatch, s.cases-k*exactBatch))
			if err != nil {
				return err
			}
			mu.Lock()
			all.add(found)
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all.rows()
}

// rows has an error if the GPU's bytes are not those of the processors, or too few were compared.
func (t *tally) rows() ([]row, error) {
	note := fmt.Sprintf("of %d; %d JPEGs decoded there, %d left to processors", t.bytes, t.decoded, t.left)
	rows := []row{once(fmt.Sprintf("%d samples made on the GPU: bytes unlike the processors'", t.samples), "", float64(t.differ), note).atMost(0)}
	switch {
	case t.first != "":
		return rows, errors.New(t.first)
	case t.decoded < t.samples/4:
		return rows, fmt.Errorf("the GPU decoded only %d of %d samples", t.decoded, t.samples)
	}
	return rows, nil
}

// sanitized repeats a few of the samples under NVIDIA's tools that watch the kernels.
func sanitized(ctx context.Context, s *setup) (rows []row, err error) {
	n := min(50, s.cases)
	title := fmt.Sprintf("%d samples under compute-sanitizer", n)
	sanitizer, err := exec.LookPath("compute-sanitizer")
	if err != nil {
		return []row{{what: title, skipped: "compute-sanitizer is not installed"}}, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	tools := []string{"memcheck", "racecheck", "synccheck"}
	for i, tool := range tools {
		s.progress.step(tool, i, len(tools))
		out, err := exec.CommandContext(ctx, sanitizer, "--tool", tool, "--error-exitcode", "9", self,
			"-only", onGPU+"exact", "-cases", strconv.Itoa(n), "-images", "8", "-batchfs", s.batchfs, "-work", s.work).CombinedOutput()
		if err != nil {
			return rows, fmt.Errorf("compute-sanitizer --tool %s: %w\n%s", tool, err, out)
		}
		rows = append(rows, row{what: title + ", " + tool, passed: "nothing found"})
	}
	return rows, nil
}

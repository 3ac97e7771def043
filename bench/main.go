// Command bench measures what the README claims, each as a ratio within one run,
// with the batchfs binary as its users run it: mounted, and read from here, which
// is another process.
//
//	go run ./bench -batchfs bin/batchfs -ceiling bin/ceiling
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench: error:", err)
		stop()
		os.Exit(1)
	}
}

// A setup is what every measurement needs.
type setup struct {
	batchfs, ceiling string // binaries
	photos           string // the dataset
	images           int
	work             string // a directory of our own
	rounds           int    // how often each ratio is taken; the median counts
}

// A row is one line of the table.
type row struct {
	what, unit    string
	value, wanted float64
	atMost        bool // whether wanted is an upper bound
	note          string
}

func run(ctx context.Context) error {
	var s setup
	flag.StringVar(&s.batchfs, "batchfs", "bin/batchfs", "the batchfs `binary`")
	flag.StringVar(&s.ceiling, "ceiling", "bin/ceiling", "the bare libjpeg-turbo `binary`")
	flag.IntVar(&s.images, "images", 2048, "size of the dataset of photos")
	flag.IntVar(&s.rounds, "rounds", 5, "measurements of each ratio; the median is printed")
	flag.StringVar(&s.photos, "dataset", "", "a `directory` of photos like those of batchfs gen, instead of making one")
	only := flag.String("only", "", "measure only this: path, epoch, first, memory or manifest")
	flag.Parse()
	if os.Geteuid() != 0 {
		return errors.New("passthrough needs root: run as root")
	}
	var err error
	if s.batchfs, err = filepath.Abs(s.batchfs); err != nil {
		return err
	}
	if s.work, err = os.MkdirTemp("", "batchfs-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.work)
	// The index goes with the rest, not into the user's cache.
	os.Setenv("XDG_CACHE_HOME", filepath.Join(s.work, "cache"))

	fmt.Printf("%s, %d CPUs, %s, kernel %s\n", processor(), runtime.NumCPU(), time.Now().Format(time.DateOnly), kernel())
	fmt.Printf("ratios are taken within one run, %d times; the median is printed, and the range beside it\n\n", s.rounds)
	if err := s.generate(ctx); err != nil {
		return err
	}
	measurements := []struct {
		name    string
		measure func(context.Context, *setup) ([]row, error)
	}{
		{"path", readPaths}, {"epoch", epochs}, {"first", firstBatch}, {"memory", memoryByWorkers}, {"manifest", manifest},
	}
	for _, m := range measurements {
		if *only != "" && *only != m.name {
			continue
		}
		rows, err := m.measure(ctx, &s)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		for _, r := range rows {
			r.print()
		}
	}
	return nil
}

func (r row) print() {
	verdict := "met"
	if r.atMost && r.value > r.wanted || !r.atMost && r.value < r.wanted {
		verdict = "MISSED"
	}
	rule := "at least"
	if r.atMost {
		rule = "at most"
	}
	fmt.Printf("%-58s %9.3f %-6s %s %g: %s  %s\n", r.what, r.value, r.unit, rule, r.wanted, verdict, r.note)
}

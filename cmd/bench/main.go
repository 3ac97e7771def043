// Command bench measures what the README claims, each as a ratio within one run, with the
// batchfs binary as its users run it: mounted, and read from this separate process.
//
//	go run ./cmd/bench -batchfs bin/batchfs -ceiling bin/ceiling
//
// Everything that is measured is a contest (contest.go): contenders take turns, round after round,
// so that a slowdown of the machine affects all of them, and rows are ratios of their figures in
// the same round. The contenders are mounts that are read epoch after epoch or mounted anew
// (mount.go), programs and Python scripts (programs.go), and work within this process. A daemon
// or a script is stopped while it is not its turn. A scenario holds contests and prints rows
// (scenarios.go has them all).
//
// The unit of most rows is C: a bare C program that decodes the same files in full, from
// memory into one reused buffer per thread, on all cores, and does nothing else. The files
// that batchfs reads are in the page cache.
//
// -only peers measures the alternatives to batchfs, see peers.go; -only liquid the cache, mixes of
// formats and emulated accelerators, see liquid.go and mlperf.go; -only remote datasets in an
// object store, see remote.go; -only cold files that are in no cache, see cold.go. -compare COMMIT
// measures whether anything became slower since that commit, see compare.go.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
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

// options are what the flags say.
type options struct {
	batchfs, ceiling   string // binaries
	libraries          string // a binary of batchfs with the build tag libraries
	compare            string // the commit that is compared with
	python, peers      string // an interpreter, and the directory of its scripts
	realPhotos         string // directory that scripts/photos.sh made
	plots              string // output directory for pictures
	work               string // temporary directory
	images, cityscapes int    // sizes of datasets
	rounds             int    // how often each ratio is measured; the median counts
}

func run(ctx context.Context) error {
	b := &bench{stage: stage{ctx: ctx}}
	flag.StringVar(&b.batchfs, "batchfs", "bin/batchfs", "the batchfs `binary`")
	flag.StringVar(&b.ceiling, "ceiling", "bin/ceiling", "the `binary` of ceiling/ceiling.c")
	flag.StringVar(&b.libraries, "libraries", "bin/batchfs-libraries", "the `binary` of batchfs with the build tag libraries")
	flag.StringVar(&b.python, "python", "bin/peers/bin/python3", "the `interpreter` that runs the peers")
	flag.StringVar(&b.peers, "peers", "cmd/bench/peers", "the `directory` of the peers")
	flag.StringVar(&b.realPhotos, "photos", "bin/photos", "the `directory` of real photos, see scripts/photos.sh")
	flag.StringVar(&b.plots, "plots", "bin/liquid", "draw pictures into this `directory`")
	flag.StringVar(&b.work, "work", "", "make datasets below this `directory`; that for temporary files if empty")
	flag.IntVar(&b.images, "images", 2048, "size of the dataset of photos")
	flag.IntVar(&b.options.cityscapes, "cityscapes", 64, "size of the dataset of PNG files")
	flag.IntVar(&b.rounds, "rounds", 5, "measurements of each ratio; the median is printed")
	flag.StringVar(&b.compare, "compare", "", "build batchfs as of this `commit`, and compare with that alone")
	only := flag.String("only", "", "measure only these, separated by commas: "+names(scenarios)+
		"; targets, cold, peers, liquid or remote for all of that kind")
	served := flag.String("serve", "", "only serve this `directory` as an object store until standard input ends")
	flag.Parse()
	if *served != "" {
		return serveStore(*served)
	}
	if b.compare != "" {
		*only = compares
	}
	wanted, err := chosen(*only)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("passthrough needs root: run as root")
	}
	if err := b.prepare(); err != nil {
		return err
	}
	defer os.RemoveAll(b.work)
	b.describeMachine()
	return b.measureAll(wanted)
}

func (b *bench) prepare() (err error) {
	if b.work, err = os.MkdirTemp(b.work, "batchfs-bench-"); err != nil {
		return err
	}
	for _, path := range []*string{&b.batchfs, &b.libraries, &b.ceiling, &b.work} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	// Keep the index in the work directory, not in the user's cache.
	return os.Setenv("XDG_CACHE_HOME", b.cache())
}

// measureAll runs scenarios, which print what they find. One that fails does not stop the others.
func (b *bench) measureAll(wanted []scenario) error {
	failed := 0
	for _, s := range wanted {
		if err := b.within(func() { s.run(b) }); err != nil {
			failed++
			fmt.Printf("%-66s FAILED: %v\n", s.name, err)
		}
		if b.ctx.Err() != nil {
			return errors.New("interrupted")
		}
		runtime.GC() // so that one scenario's garbage does not affect the next
	}
	if failed > 0 {
		return fmt.Errorf("%d measurements failed", failed)
	}
	return nil
}

// describeMachine prints where the figures are taken.
func (s *stage) describeMachine() {
	libraries, err := exec.CommandContext(s.ctx, s.ceiling, "-libraries").Output()
	if err != nil {
		libraries = []byte("unknown")
	}
	var load float64 // over the last minute
	_, _ = fmt.Sscan(line("/proc/loadavg", ""), &load)
	cpus := runtime.NumCPU()
	fmt.Printf("%s, %d CPUs, %s, kernel %s, load %.1f; C is %s\n",
		cmp.Or(line("/proc/cpuinfo", "model name\t:"), "unknown processor"), cpus, time.Now().Format(time.DateOnly),
		line("/proc/sys/kernel/osrelease", ""), load, strings.TrimSpace(string(libraries)))
	// Figures would depend on the scheduler and on each side's number of threads. Building
	// batchfs just before stays below the threshold.
	if load > 1.5*float64(cpus) {
		fmt.Println("WARNING: others work on this machine, so that these figures mean little")
	}
	fmt.Printf("ratios are taken within one run, %d times; the median is printed, and the range beside it\n\n", s.rounds)
}

// Command bench measures what the README claims, each as a ratio within one run, with the
// batchfs binary as its users run it: mounted, and read from this separate process.
//
//	go run ./cmd/bench -batchfs bin/batchfs -ceiling bin/ceiling
//
// The unit of most rows is C: a bare C program that decodes the same files in full, from
// memory into one reused buffer per thread, on all cores, and does nothing else. The files
// that batchfs reads are in the page cache. Measurements take turns with what they are
// compared with, so that a slowdown of the machine affects both. A daemon is stopped while
// it is not its turn.
//
// -only peers measures the alternatives to batchfs, see peers.go; -only mixes,hits,uncached
// the cache and mixes of formats, see liquid.go; -only gpu a GPU, see gpu.go; -only remote
// datasets in an object store, see remote.go; -only cold files that are in no cache, see cold.go.
// -compare COMMIT measures whether anything became slower since that commit, see compare.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"
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

// A setup is shared by all measurements.
type setup struct {
	batchfs, ceiling string // binaries
	older            string // the batchfs of an older commit, where it is compared with that
	python, peers    string // an interpreter, and the directory of its scripts
	photos           imageSet
	cityscapes       imageSet
	plots            string       // output directory for pictures
	realPhotos       string       // directory that scripts/photos.sh made
	work             string       // temporary directory
	planned          int          // samples of the dataset whose cache is planned
	rounds           int          // how often each ratio is measured; the median counts
	gpu              *card        // where something is measured on it
	store            *objectStore // once something is measured on it
	gateway          string       // binary
	cases            int          // samples that are compared with those of a GPU
	repeat           int          // how often a copy or a kernel is repeated before the GPU is waited for
	progress         progress
}

func photos(s *setup) *imageSet     { return &s.photos }
func cityscapes(s *setup) *imageSet { return &s.cityscapes }

// A measurement makes some rows of the table.
type measurement struct {
	name    string
	measure func(context.Context, *setup) ([]row, error)
	images  func(*setup) *imageSet // made before it, if given
	asked   bool                   // run only on request
}

// measurements in the order of the table.
var measurements = []measurement{
	{name: "path", measure: readPaths, images: photos},
	{name: "epoch", measure: epochs, images: photos},
	{name: "transforms", measure: transforms, images: photos},
	{name: "png", measure: cityscapeEpochs, images: cityscapes},
	{name: "decoder", measure: decoderAlone, images: photos},
	{name: "resize", measure: resizeAlone, images: photos},
	{name: "allocations", measure: allocations, images: photos},
	{name: "scaling", measure: scaling, images: photos},
	{name: "first", measure: firstBatch, images: photos},
	{name: "memory", measure: memoryByWorkers, images: photos},
	{name: "manifest", measure: manifest},
	{name: "planning", measure: planning, images: photos},
	{name: "cold/epoch", measure: coldEpochs, images: photos, asked: true},
	{name: "cold/workers", measure: coldWorkers, images: photos, asked: true},
	{name: "cold/throttled", measure: coldThrottled, images: photos, asked: true},
	{name: "cold/slow", measure: coldSlow, images: photos, asked: true},
	{name: "cold/quota", measure: coldQuota, images: photos, asked: true},
	{name: "cold/memory", measure: coldMemory, images: photos, asked: true},
	{name: compares, measure: compareCommits, asked: true},
	{name: "peers", measure: peers, images: photos, asked: true},
	{name: "mixes", measure: mixes, asked: true},
	{name: "hits", measure: constantHits, images: photos, asked: true},
	{name: "uncached", measure: uncached, images: photos, asked: true},
	{name: onStore + "epoch", measure: remoteEpochs, images: photos, asked: true},
	{name: onStore + "tier", measure: remoteTier, images: photos, asked: true},
	{name: onStore + "traffic", measure: remoteTraffic, images: photos, asked: true},
	{name: onStore + "peers", measure: remotePeers, images: photos, asked: true},
	{name: onStore + "first", measure: remoteFirst, images: photos, asked: true},
	{name: onGPU + "exact", measure: exactness, images: photos, asked: true},
	{name: onGPU + "sanitizer", measure: sanitized, asked: true},
	{name: onGPU + "copies", measure: copies, asked: true},
	{name: onGPU + "place", measure: placed, asked: true},
	{name: onGPU + "decode", measure: gpuDecoders, images: photos, asked: true},
	{name: onGPU + "open", measure: handOver, images: photos, asked: true},
	{name: onGPU + "epoch", measure: deviceEpochs, images: photos, asked: true},
	{name: onGPU + "killed", measure: killedReader, images: photos, asked: true},
	{name: onGPU + "full", measure: fullDevice, images: photos, asked: true},
	{name: onGPU + "frameworks", measure: frameworks, images: photos, asked: true},
}

func run(ctx context.Context) error {
	var s setup
	flag.StringVar(&s.batchfs, "batchfs", "bin/batchfs", "the batchfs `binary`")
	flag.StringVar(&s.ceiling, "ceiling", "bin/ceiling", "the `binary` of ceiling/ceiling.c")
	flag.StringVar(&s.python, "python", "bin/peers/bin/python3", "the `interpreter` that runs the peers")
	flag.StringVar(&s.peers, "peers", "cmd/bench/peers", "the `directory` of the peers")
	flag.StringVar(&s.realPhotos, "photos", "bin/photos", "the `directory` of real photos, see scripts/photos.sh")
	flag.StringVar(&s.plots, "plots", "bin/liquid", "draw pictures into this `directory`")
	flag.StringVar(&s.work, "work", "", "make datasets in a directory in this `directory`; that for temporary files if empty")
	flag.IntVar(&s.photos.images, "images", 2048, "size of the dataset of photos")
	flag.IntVar(&s.cityscapes.images, "cityscapes", 64, "size of the dataset of PNG files")
	flag.IntVar(&s.planned, "samples", imageNet, "size of the dataset whose cache is planned; 20000000 takes minutes to index")
	flag.IntVar(&s.rounds, "rounds", 5, "measurements of each ratio; the median is printed")
	flag.IntVar(&s.cases, "cases", 20000, "samples that are made on a GPU and compared")
	flag.IntVar(&s.repeat, "repeat", 50, "copies or kernels of each measurement on a GPU")
	commit := flag.String("compare", "", "build batchfs as of this `commit`, and compare with that alone")
	only := flag.String("only", "", "measure only these, separated by commas: "+names(measurements)+"; gpu, remote or cold for all of that kind")
	flag.StringVar(&s.gateway, "gateway", "", "measure with this `binary` of VersityGW behind the object store of this program")
	served := flag.String("serve", "", "only serve this `directory` as an object store until standard input ends")
	held := flag.String("hold", "", "only read this .cuda `file` on the GPU until killed")
	flag.Parse()
	if *held != "" {
		return hold(*held)
	}
	if *served != "" {
		return serveStore(*served, s.gateway)
	}
	if *commit != "" {
		*only = compares
	}
	wanted, err := chosen(*only)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(wanted, func(m measurement) bool { return strings.HasPrefix(m.name, onGPU) }) {
		if s.gpu, err = findGPU(); err != nil {
			return err
		}
	}
	if os.Geteuid() != 0 {
		return errors.New("passthrough needs root: run as root")
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	defer os.RemoveAll(s.work)

	if *commit != "" {
		if s.older, err = s.build(ctx, *commit); err != nil {
			return err
		}
	}
	defer s.endStore()
	s.describeMachine(ctx)
	fmt.Printf("ratios are taken within one run, %d times; the median is printed, and the range beside it\n\n", s.rounds)
	return s.measureAll(ctx, wanted)
}

// measureAll prints what each measurement finds. One that fails does not stop the others.
func (s *setup) measureAll(ctx context.Context, wanted []measurement) error {
	failed := 0
	for _, m := range wanted {
		s.progress.title = m.name
		rows, err := s.measure(ctx, m)
		s.progress.clear()
		for _, one := range rows {
			fmt.Println(one)
		}
		if err != nil {
			failed++
			fmt.Printf("%-66s FAILED: %v\n", m.name, err)
		}
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		runtime.GC() // so that one measurement's garbage does not affect the next
	}
	if failed > 0 {
		return fmt.Errorf("%d measurements failed", failed)
	}
	return nil
}

// measure makes the images that a measurement needs, and takes it.
func (s *setup) measure(ctx context.Context, m measurement) ([]row, error) {
	if m.images != nil {
		if err := s.need(ctx, m.images(s)); err != nil {
			return nil, err
		}
	}
	return m.measure(ctx, s)
}

// chosen returns the measurements to run, given their names, or the part of a name before the slash.
func chosen(only string) (wanted []measurement, err error) {
	list := strings.Split(only, ",")
	asked := func(m measurement, name string) bool { return m.name == name || strings.HasPrefix(m.name, name+"/") }
	for _, m := range measurements {
		if slices.ContainsFunc(list, func(name string) bool { return asked(m, name) }) || only == "" && !m.asked {
			wanted = append(wanted, m)
		}
	}
	for _, name := range list {
		if only != "" && !slices.ContainsFunc(wanted, func(m measurement) bool { return asked(m, name) }) {
			return nil, fmt.Errorf("-only must name some of %s, not %q", names(measurements), name)
		}
	}
	return wanted, nil
}

func names(list []measurement) string {
	var all []string
	for _, m := range list {
		all = append(all, m.name)
	}
	return strings.Join(all, ", ")
}

func (s *setup) prepare(ctx context.Context) (err error) {
	s.photos.kind, s.cityscapes.kind = "photo", "cityscape"
	s.progress.out = io.Discard
	if term.IsTerminal(int(os.Stderr.Fd())) {
		s.progress.out = os.Stderr
	}
	for _, path := range []*string{&s.batchfs, &s.ceiling} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if s.work, err = os.MkdirTemp(s.work, "batchfs-bench-"); err != nil {
		return err
	}
	if s.work, err = filepath.Abs(s.work); err != nil {
		return err
	}
	// Keep the index in the work directory, not in the user's cache.
	return os.Setenv("XDG_CACHE_HOME", s.cache())
}

// cache is the directory of the index.
func (s *setup) cache() string { return filepath.Join(s.work, "cache") }

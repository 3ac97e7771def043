// Mutate tells which small changes of a package its own tests notice. Tests can be removed without
// loss if every mutant that was killed before is still killed:
//
//	go run ./internal/mutate -o before ./shard
//	go run ./internal/mutate -o after ./shard
//	comm -23 <(grep ^killed before | cut -f2 | sort) <(grep ^killed after | cut -f2 | sort)
//
// All mutants of a run are compiled into one test program, each behind a condition, and an
// environment variable chooses one: a mutant costs one run of the tests, and no build. The changed
// files are an overlay, so no file on disk changes.
//
// Results are written one per line as they come: the verdict, the mutant's name, and the tests that
// failed. A run that was ended continues when it is started again.
//
// Gremlins changes operators only, names mutants by line and column, and copies the module and
// builds it for each mutant; hence this program.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	output := flag.String("o", "mutants.txt", "the file for the results")
	count := flag.Int("n", 100, "how many mutants, at most")
	seed := flag.String("seed", "1", "chooses the mutants")
	limit := flag.Duration("for", time.Hour, "how long to start runs for")
	all := flag.Bool("all", false, "name all tests that kill a mutant, not only the first")
	flag.Parse()
	if err := run(flag.Arg(0), *output, *seed, *count, time.Now().Add(*limit), *all); err != nil {
		fmt.Fprintln(os.Stderr, "mutate: error:", err)
		os.Exit(1)
	}
}

// A program is the tests of a package with mutants in them.
type program struct {
	dir, name string            // of the package
	texts     map[string][]byte // its files, by name
	work      string            // directory for generated files
	mutants   []*mutant
	skip      []string // tests that fail without a mutant
	failfast  bool
}

// run tests the mutants of a package that are not yet in the results file.
func run(pattern, output, seed string, count int, until time.Time, all bool) error {
	work, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	p := &program{work: work, texts: map[string][]byte{}, failfast: !all}
	if err := p.load(pattern); err != nil {
		return err
	}
	p.mutants = choose(p.mutants, seed, count*3/2) // more, since some do not compile
	if err := p.build(); err != nil {
		return err
	}
	if p.skip, err = p.test(0, time.Hour); err != nil {
		return err
	}
	if p.skip != nil {
		fmt.Fprintln(os.Stderr, "mutate: left out, since they fail without a mutant:", p.skip)
	}
	start := time.Now()
	if failed, err := p.test(0, time.Hour); err != nil || failed != nil {
		return errors.Join(fmt.Errorf("without a mutant, these fail: %q", failed), err)
	}
	limit := 2*time.Since(start) + 5*time.Second
	results, err := os.OpenFile(output, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o666)
	if err != nil {
		return err
	}
	defer results.Close()
	done, err := os.ReadFile(output)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for _, m := range choose(p.mutants, seed, count) {
		if bytes.Contains(done, []byte("\t"+m.name+"\t")) || time.Now().After(until) {
			continue
		}
		group.Go(func() error {
			failed, err := p.test(m.number, limit)
			verdict := "survived"
			if failed != nil {
				verdict = "killed"
			}
			if err == nil {
				_, err = fmt.Fprintf(results, "%s\t%s\t%s\n", verdict, m.name, strings.Join(failed, " "))
			}
			return err
		})
	}
	return group.Wait()
}

// load reads the package and finds its mutants.
func (p *program) load(pattern string) error {
	out, err := exec.Command("go", "list", "-json=Dir,Name,GoFiles,CgoFiles", pattern).Output()
	if err != nil {
		return fmt.Errorf("go list %s: %w", pattern, err)
	}
	var listed struct {
		Dir, Name         string
		GoFiles, CgoFiles []string
	}
	if err := json.Unmarshal(out, &listed); err != nil {
		return err
	}
	p.dir, p.name = listed.Dir, listed.Name
	for _, name := range append(listed.GoFiles, listed.CgoFiles...) {
		text, err := os.ReadFile(filepath.Join(p.dir, name))
		if err != nil {
			return err
		}
		found, err := find(name, text)
		if err != nil {
			return err
		}
		p.texts[name], p.mutants = text, append(p.mutants, found...)
	}
	for i, m := range p.mutants {
		m.number = i + 1
	}
	return nil
}

var compilerError = regexp.MustCompile(`(\w+\.go):(\d+):\d+: `)

// build makes the test program. It leaves out mutants that do not compile; usually a constant's
// type is not int.
func (p *program) build() error {
	for {
		if err := p.generate(); err != nil {
			return err
		}
		build := exec.Command("go", "test", "-c", "-vet=off", "-gcflags=-e",
			"-o", filepath.Join(p.work, "tests"), "-overlay", filepath.Join(p.work, "overlay.json"), p.dir)
		build.Dir = p.dir
		out, err := build.CombinedOutput()
		if err == nil {
			return nil
		}
		before := len(p.mutants)
		for _, found := range compilerError.FindAllSubmatch(out, -1) {
			line, _ := strconv.Atoi(string(found[2]))
			p.mutants = slices.DeleteFunc(p.mutants, func(m *mutant) bool {
				return m.file == string(found[1]) && m.first <= line && line <= m.last
			})
		}
		if len(p.mutants) == before {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
}

// generate writes the package's files with the mutants in them, and the overlay.
func (p *program) generate() error {
	p.texts["mutate_helpers.go"] = []byte("package " + p.name + helpers)
	overlay := map[string]string{}
	for name, text := range p.texts {
		var here []*mutant
		for _, m := range p.mutants {
			if m.file == name {
				here = append(here, m)
			}
		}
		changed := filepath.Join(p.work, name)
		overlay[filepath.Join(p.dir, name)] = changed
		if err := os.WriteFile(changed, rewrite(text, here), 0o666); err != nil {
			return err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.work, "overlay.json"), text, 0o666)
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// test runs the tests with a mutant chosen, 0 for none, and returns the tests that failed.
func (p *program) test(number int, limit time.Duration) (failed []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	// A mutant may allocate without end.
	tests := exec.CommandContext(ctx, "sh", "-c", `ulimit -d 6000000; exec "$0" -test.short "$@"`,
		filepath.Join(p.work, "tests"), fmt.Sprintf("-test.failfast=%t", p.failfast && number > 0))
	if p.skip != nil {
		tests.Args = append(tests.Args, "-test.skip=^("+strings.Join(p.skip, "|")+")$")
	}
	tests.Dir, tests.Env = p.dir, append(os.Environ(), fmt.Sprintf("MUTATE=%d", number))
	tests.WaitDelay = time.Second
	out, err := tests.CombinedOutput()
	if err == nil || tests.ProcessState == nil {
		return nil, err
	}
	for _, found := range failedTest.FindAllSubmatch(out, -1) {
		failed = append(failed, string(found[1]))
	}
	if ctx.Err() != nil || failed == nil {
		failed = append(failed, "("+tests.ProcessState.String()+")")
	}
	return failed, nil
}

const helpers = `

import (
	"cmp"
	"os"
	"strconv"
)

var mutateChosen, _ = strconv.Atoi(os.Getenv("MUTATE"))

func mutateIs(n int) bool { return n == mutateChosen }

func mutateFlip(n, constant int) int {
	if mutateIs(n) {
		return 1 - constant
	}
	return constant
}

func mutateLess[T cmp.Ordered](n int, a, b T) bool {
	return a < b || a == b && mutateIs(n)
}

func mutateLessEqual[T cmp.Ordered](n int, a, b T) bool {
	return a < b || a == b && !mutateIs(n)
}

func mutateGreater[T cmp.Ordered](n int, a, b T) bool      { return mutateLess(n, b, a) }
func mutateGreaterEqual[T cmp.Ordered](n int, a, b T) bool { return mutateLessEqual(n, b, a) }

type mutateNumber interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~float32 | ~float64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

func mutateAdd[T mutateNumber](n int, a, b T) T {
	if mutateIs(n) {
		return a - b
	}
	return a + b
}

func mutateSubtract[T mutateNumber](n int, a, b T) T {
	if mutateIs(n) {
		return a + b
	}
	return a - b
}
`

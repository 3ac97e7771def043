package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A stage is where scenarios run programs and hold contests. They use it as tests use testing.T:
// check and must end a scenario that cannot go on, and later takes functions that are called even
// then.
type stage struct {
	options
	ctx  context.Context // until the run is interrupted
	ends []func() error  // what is left to end
}

// A bench is a stage with the datasets that the scenarios of a run share, and mounts of them.
type bench struct {
	stage
	made  map[string]*pictures
	mixes map[*pipeline]*mixData
}

// A failure is what check panics with.
type failure struct{ error }

// check ends the work of within or catch if there is an error.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must returns x. If there is an error, it ends the work as check does.
func must[T any](x T, err error) T {
	check(err)
	return x
}

// catch does some work, and returns the error of the check that ended it, if any.
func catch(work func()) (err error) {
	defer func() {
		p := recover()
		if failed, ok := p.(failure); ok {
			err = failed.error
		} else if p != nil {
			panic(p)
		}
	}()
	work()
	return nil
}

// within does some work, and then calls the functions that the work gave to later.
func (s *stage) within(work func()) error {
	n := len(s.ends)
	err := catch(work)
	for _, end := range slices.Backward(s.ends[n:]) {
		err = errors.Join(err, end())
	}
	s.ends = s.ends[:n]
	return err
}

// later has a function called when the current work is over. The last one is called first.
func (s *stage) later(end func() error) { s.ends = append(s.ends, end) }

// print prints rows of the table.
func (s *stage) print(rows ...row) {
	for _, r := range rows {
		if r.missing == nil || !r.quiet {
			fmt.Println(r)
		}
	}
}

// cache is the directory of the index.
func (s *stage) cache() string { return filepath.Join(s.work, "cache") }

// command runs a command of batchfs and returns what it prints.
func (s *stage) command(args ...string) []byte {
	cmd := exec.CommandContext(s.ctx, s.batchfs, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		check(fmt.Errorf("batchfs %s: %w", args[0], err))
	}
	return out
}

// manifestOf writes a manifest, and its index.
func (b *bench) manifestOf(path, header string, rows int, row func(i int) string) {
	f := must(os.Create(path))
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, header)
	for i := range rows {
		fmt.Fprintln(w, row(i))
	}
	check(errors.Join(w.Flush(), f.Close()))
	b.command("index", path)
}

// line returns what follows a name at the start of a line of a kernel file; "" if there is no such
// line.
func line(path, name string) string {
	text, _ := os.ReadFile(path)
	_, rest, _ := strings.Cut("\n"+string(text), "\n"+name)
	rest, _, _ = strings.Cut(rest, "\n")
	return strings.TrimSpace(rest)
}

// number is the number after a name in a kernel file.
func number(path, name string) (n int64, err error) {
	if _, err = fmt.Sscan(line(path, name), &n); err != nil {
		err = fmt.Errorf("%s has no number %s", path, name)
	}
	return n, err
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// console is how a command talks to its user: results go to out, progress and messages to
// err. It also holds the process's environment, machine and signals.
type console struct {
	out, err io.Writer
	command  string // the command that runs
	asJSON   bool   // print results as JSON
	env      environment
	machine  host
	signals  *signals
}

// interactive reports whether w is a terminal.
func interactive(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (c *console) printf(format string, args ...any) { fmt.Fprintf(c.out, format, args...) }

// say prints a message that is not a result.
func (c *console) say(format string, args ...any) {
	fmt.Fprintf(c.err, "batchfs: "+format+"\n", args...)
}

// printable is a result. Programs get it as JSON; print writes it as text for people, to a
// writer that keeps the first error.
type printable interface {
	print(out io.Writer)
}

// show writes a result as text or as JSON on one line, and returns its verdict, if it has one.
func (c *console) show(result printable) (err error) {
	if c.asJSON {
		err = json.NewEncoder(c.out).Encode(result)
	} else {
		w := bufio.NewWriter(c.out)
		result.print(w)
		err = w.Flush()
	}
	if judged, ok := result.(interface{ verdict() error }); ok && err == nil {
		return judged.verdict()
	}
	return err
}

// A table aligns the columns of rows, which begin with a name.
type table struct{ *tabwriter.Writer }

func newTable(out io.Writer) table { return table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)} }

func (t table) row(name, format string, args ...any) {
	fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
}

// progress shows how far a long operation is, on a terminal only: of its steps, the one that
// reported last.
type progress struct {
	out io.Writer // nil: not a terminal

	mu   sync.Mutex
	step string // that is shown
	bar  *progressbar.ProgressBar
}

func (c *console) progress() *progress {
	p := &progress{}
	if interactive(c.err) {
		p.out = c.err
	}
	return p
}

// reporter returns a function that is told how much of a step is done. The total may become known
// late and may grow. Several goroutines may report concurrently.
func (p *progress) reporter(step, unit string) func(done, total int64) {
	return func(done, total int64) {
		if p.out == nil || total <= 0 {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.step != step {
			p.clear()
		}
		if p.step = step; p.bar == nil {
			p.bar = progressbar.NewOptions64(total,
				progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(step),
				progressbar.OptionSetItsString(unit), progressbar.OptionShowCount(), progressbar.OptionShowIts(),
				progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
				progressbar.OptionSetWidth(24))
		}
		if p.bar.GetMax64() != total {
			p.bar.ChangeMax64(total)
		}
		if done < total { // a full bar closes itself; leave that to close
			_ = p.bar.Set64(done)
		}
	}
}

// close removes the bar.
func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
	}
}

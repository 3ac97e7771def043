package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/batchfs/batchfs/internal/throughput"
)

// A row is one line of the table.
type row struct {
	What string `json:"what"`
	Unit string `json:"unit"`
	throughput.Figure
	Goal    *goal  `json:"goal,omitempty"` // nil: informational
	Note    string `json:"note,omitempty"`
	Skipped string `json:"skipped,omitempty"` // why there is no figure
}

// A goal is the required bound of a figure.
type goal struct {
	Rule  string  `json:"rule"` // at least, or at most
	Value float64 `json:"value"`
	Met   bool    `json:"met"`
}

// measured is a row of several measurements.
func measured(what, unit string, figures []float64, note string) row {
	return row{What: what, Unit: unit, Figure: throughput.FigureOf(figures), Note: note}
}

// once is a row of one measurement.
func once(what, unit string, x float64, note string) row {
	return measured(what, unit, []float64{x}, note)
}

func (r row) atLeast(x float64) row {
	r.Goal = &goal{Rule: "at least", Value: x, Met: r.Value >= x}
	return r
}

func (r row) atMost(x float64) row {
	r.Goal = &goal{Rule: "at most", Value: x, Met: r.Value <= x}
	return r
}

func (r row) String() string {
	if r.Skipped != "" {
		return fmt.Sprintf("%-66s skipped: %s", r.What, r.Skipped)
	}
	text := fmt.Sprintf("%-66s %9.3f %-8s", r.What, r.Value, r.Unit)
	if r.Unit == "images/s" {
		text = fmt.Sprintf("%-66s %9.0f %-8s", r.What, r.Value, r.Unit)
	}
	if r.Goal != nil {
		verdict := "met"
		if !r.Goal.Met {
			verdict = "MISSED"
		}
		text += fmt.Sprintf(" %s %g: %s", r.Goal.Rule, r.Goal.Value, verdict)
	}
	if r.Low != r.High {
		text += fmt.Sprintf("  (%.4g to %.4g)", r.Low, r.High)
	}
	if r.Note != "" {
		text += "  " + r.Note
	}
	return strings.TrimRight(text, " ")
}

// A report collects the rows and prints each at once, or all as JSON.
type report struct {
	json    bool
	Machine machine           `json:"machine"`
	Rounds  int               `json:"rounds"`
	Rows    []row             `json:"rows"`
	Failed  map[string]string `json:"failed,omitempty"` // reason by measurement
}

func (r *report) begin() {
	if r.json {
		return
	}
	fmt.Println(r.Machine)
	if r.Machine.busy() {
		fmt.Println("WARNING: others work on this machine, so that these figures mean little")
	}
	fmt.Printf("ratios are taken within one run, %d times; the median is printed, and the range beside it\n\n", r.Rounds)
}

func (r *report) add(name string, rows []row, err error) {
	r.Rows = append(r.Rows, rows...)
	if err != nil {
		if r.Failed == nil {
			r.Failed = map[string]string{}
		}
		r.Failed[name] = err.Error()
	}
	if r.json {
		return
	}
	for _, one := range rows {
		fmt.Println(one)
	}
	if err != nil {
		fmt.Printf("%-66s FAILED: %v\n", name, err)
	}
}

func (r *report) end() error {
	if r.json {
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			return err
		}
	}
	if len(r.Failed) > 0 {
		return fmt.Errorf("%d measurements failed", len(r.Failed))
	}
	return nil
}

// A progress shows the current measurement at a terminal, on one temporary line.
type progress struct {
	on    bool
	title string
}

// step shows that part i of n, from 0, has begun.
func (p progress) step(what string, i, n int) {
	if p.on {
		fmt.Fprintf(os.Stderr, "\r\033[K%s: %s, %d of %d", p.title, what, i+1, n)
	}
}

func (p progress) clear() {
	if p.on {
		fmt.Fprint(os.Stderr, "\r\033[K")
	}
}

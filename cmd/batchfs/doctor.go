package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/batchfs/batchfs/fusefs"
)

func doctorCommand(c *console) *cobra.Command {
	return command("doctor", func(f *flagSet) runner {
		var asJSON bool
		jsonFlag(f, &asJSON, "print one JSON object")
		return func(ctx context.Context, _ []string) error {
			report := c.examine(ctx)
			if err := show(c.out, report, asJSON); err != nil {
				return err
			}
			return report.verdict()
		}
	})
}

// finding is the result of one check. Advice says what to do about it and is empty if it is OK.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

func good(name, format string, args ...any) finding {
	return finding{Name: name, OK: true, Found: fmt.Sprintf(format, args...)}
}

func poor(name, found, advice string) finding {
	return finding{Name: name, Found: oneLine(found), Advice: advice}
}

type doctorReport struct {
	Version  string              `json:"version"`
	FUSE     fusefs.Capabilities `json:"fuse"`
	Findings []finding           `json:"findings"`
}

func (c *console) examine(ctx context.Context) doctorReport {
	r := doctorReport{Version: version(), FUSE: fusefs.Probe()}
	r.Findings = append(r.Findings, fuseDevice(r.FUSE))
	r.Findings = append(r.Findings, c.tryMount(ctx)...)
	r.Findings = append(r.Findings,
		fusermount(r.FUSE), allowOther(r.FUSE), requestTimeout(r.FUSE), c.machine.hugePages(), memoryReuse(), memoryLocking(),
		decoders(), c.machine.processors(), c.machine.memoryShare(), c.machine.gpu(), c.indexes())
	return r
}

// verdict is an error if nothing can be mounted here; the report already says why.
func (r doctorReport) verdict() error {
	for _, f := range r.Findings {
		if f.Name == mountingFinding && !f.OK {
			return &saidError{statusFailed}
		}
	}
	return nil
}

func (r doctorReport) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\tbatchfs\t%s\n", r.Version)
	for _, f := range r.Findings {
		mark := "ok"
		if !f.OK {
			mark = "!!"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", mark, f.Name, f.Found)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	heading := "\nwhat to do:\n"
	for _, f := range r.Findings {
		if f.Advice == "" {
			continue
		}
		if _, err := fmt.Fprintf(out, "%s  %s: %s\n", heading, f.Name, f.Advice); err != nil {
			return err
		}
		heading = ""
	}
	return nil
}

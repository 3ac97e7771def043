package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/fusefs"
)

func doctorCommand(c *console) *cli.Command {
	return command(cli.Command{
		Name:        "doctor",
		Usage:       "what this machine offers, and what to do about what is missing",
		Description: "Tries a small mount, looks at the kernel, the limits and the libraries, and says what each finding means.",
		Flags:       []cli.Flag{jsonFlag("print one JSON object")},
		Action: func(ctx *cli.Context) error {
			v := &flagValues{flags: ctx}
			v.arguments()
			if v.err != nil {
				return v.err
			}
			return show(c.out, c.examine(ctx.Context), v.on("json"))
		},
	}, "batchfs doctor")
}

// finding is the result of one check. Advice says what to do about it and is empty if OK.
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

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/dataset"
)

func indexCommand(c *console) *cli.Command {
	return command(cli.Command{
		Name:      "index",
		Usage:     "scan a dataset once, so that mounts start at once",
		ArgsUsage: "DATASET",
		Description: "Reads the header of every image and keeps the result in the user's cache directory, never inside the\n" +
			"dataset. Every file is looked at, and the headers of those that changed are read again, so that the next mount\n" +
			"takes them as they are. The index is a Parquet file that other tools can query.",
		Flags: join(datasetFlags(), []cli.Flag{
			workersFlag(),
			switchFlag("", "rescan", true, "look at every file, also where no directory has changed"),
			jsonFlag("print one JSON object"),
		}),
		Action: func(ctx *cli.Context) error {
			v := &flagValues{flags: ctx}
			args := v.arguments("DATASET")
			o := v.datasetOptions(v.workers(c.machine), discardLog())
			o.rescan = v.on("rescan")
			if v.err != nil {
				return v.err
			}
			ds, err := c.openDataset(ctx.Context, args[0], o)
			if err != nil {
				return err
			}
			defer ds.Close()
			return show(c.out, summarize(ds), v.on("json"))
		},
	}, "batchfs index photos/")
}

// datasetSummary is the output of index.
type datasetSummary struct {
	Dataset    string         `json:"dataset"`
	Index      string         `json:"index"`
	Samples    int            `json:"samples"`
	Classes    int            `json:"classes"`
	Formats    map[string]int `json:"formats"`
	Bytes      int64          `json:"bytes"`
	MaxHeight  int            `json:"max_height"`
	MaxWidth   int            `json:"max_width"`
	Ignored    int            `json:"ignored"`
	Scanned    int            `json:"scanned"`
	Reused     int            `json:"reused"`
	Unreadable []badFile      `json:"unreadable"`

	IgnoredBy    map[string]int `json:"ignored_by"` // by extension; "." is hidden, "" is none, "other" is the rest
	IndexProblem string         `json:"index_problem,omitempty"`

	kinds string // of ignored files, as text
}

func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// badFile is a sample that cannot be read, and why.
type badFile struct {
	Path   string `json:"path"`
	Bytes  string `json:"path_bytes,omitempty"` // if the path is not UTF-8
	ID     int    `json:"id"`
	Reason string `json:"reason"`
}

func newBadFile(path string, id int, reason string) badFile {
	return badFile{path, dataset.PathBytes(path), id, reason}
}

func summarize(ds *dataset.Dataset) datasetSummary {
	r := ds.Report()
	s := datasetSummary{
		Dataset: ds.Root(), Index: ds.IndexPath(), Samples: r.Samples, Classes: r.Classes, Formats: r.Formats,
		Bytes: r.Bytes, MaxHeight: r.MaxHeight, MaxWidth: r.MaxWidth, Ignored: r.Ignored,
		Scanned: r.Scanned, Reused: r.Reused, Unreadable: []badFile{}, IgnoredBy: r.IgnoredBy, IndexProblem: r.IndexProblem, kinds: r.IgnoredKinds(),
	}
	for i := range ds.Len() {
		if reason := cmp.Or(ds.Problem(i), ds.Unread(i)); reason != "" {
			s.Unreadable = append(s.Unreadable, newBadFile(ds.Path(i), i, reason))
		}
	}
	return s
}

func (s datasetSummary) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	row("dataset", "%s", shown(s.Dataset))
	row("images", "%d", s.Samples)
	row("classes", "%d", s.Classes)
	row("formats", "%s", formatCounts(s.Formats))
	row("encoded", "%s", formatBytes(s.Bytes))
	row("largest", "%d x %d (height x width)", s.MaxHeight, s.MaxWidth)
	row("ignored", "%s", count(s.Ignored, "file")+inBrackets(s.kinds))
	row("unreadable", "%d", len(s.Unreadable))
	row("scanned", "%d headers read, %d known from before", s.Scanned, s.Reused)
	if s.Index != "" {
		row("index", "%s", shown(s.Index))
	} else {
		row("index", "not kept: %s", cmp.Or(s.IndexProblem, "no directory for it, see batchfs doctor"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printBad(out, s.Unreadable)
}

// formatCounts lists the formats, most frequent first.
func formatCounts(formats map[string]int) string {
	names := slices.SortedFunc(maps.Keys(formats), func(a, b string) int {
		if d := formats[b] - formats[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%s %d", name, formats[name])
	}
	return strings.Join(parts, ", ")
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batchfs/batchfs/dataset"
)

func indexCommand(c *console) *cobra.Command {
	return command("index DATASET", func(f *flagSet) runner {
		var o datasetOptions
		var asJSON bool
		datasetFlags(f, &o)
		workerFlag(c, f, &o.workers)
		f.group = ""
		f.toggle(&o.rescan, "rescan", true, "check every file, even if no directory has changed")
		jsonFlag(f, &asJSON, "print one JSON object")
		return func(ctx context.Context, args []string) error {
			ds, err := c.openDataset(ctx, args[0], o)
			if err != nil {
				return err
			}
			defer ds.Close()
			return show(c.out, summarize(ds), asJSON)
		}
	})
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
	t := newTable(out)
	t.row("dataset", "%s", shown(s.Dataset))
	t.row("images", "%d", s.Samples)
	t.row("classes", "%d", s.Classes)
	t.row("formats", "%s", formatCounts(s.Formats))
	t.row("encoded", "%s", formatBytes(s.Bytes))
	t.row("largest", "%d x %d (height x width)", s.MaxHeight, s.MaxWidth)
	ignored := count(s.Ignored, "file")
	if s.kinds != "" {
		ignored += " (" + s.kinds + ")"
	}
	t.row("ignored", "%s", ignored)
	t.row("unreadable", "%d", len(s.Unreadable))
	t.row("scanned", "%d headers read, %d known from before", s.Scanned, s.Reused)
	if s.Index != "" {
		t.row("index", "%s", shown(s.Index))
	} else {
		t.row("index", "not kept: %s", cmp.Or(s.IndexProblem, "there is no directory for it; see batchfs doctor"))
	}
	if err := t.Flush(); err != nil {
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

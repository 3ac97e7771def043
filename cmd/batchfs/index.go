package main

import (
	"cmp"
	"context"
	"encoding/json"
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
		var o dataset.Options
		var asJSON bool
		datasetFlags(f, &o)
		workerFlag(c, f, &o.Workers)
		f.group = ""
		f.toggle(&o.Rescan, "rescan", true, "check every file, even if no directory has changed")
		jsonFlag(f, &asJSON, "print one JSON object")
		return func(ctx context.Context, args []string) error {
			ds, err := c.openDataset(ctx, args[0], o)
			if err != nil {
				return err
			}
			defer ds.Close()
			return show(c.out, indexResult{ds}, asJSON)
		}
	})
}

// indexResult is the output of index.
type indexResult struct{ *dataset.Dataset }

func (s indexResult) MarshalJSON() ([]byte, error) {
	r := s.Report()
	doc := map[string]any{
		"dataset": s.Root(), "index": s.IndexPath(), "samples": r.Samples, "classes": r.Classes, "formats": r.Formats, "bytes": r.Bytes,
		"max_height": r.MaxHeight, "max_width": r.MaxWidth, "scanned": r.Scanned, "reused": r.Reused, "unreadable": s.unreadable(),
		"ignored": r.Ignored, "ignored_by": r.IgnoredBy, // by extension; "." is hidden, "" is none, "other" is the rest
	}
	if r.IndexProblem != "" {
		doc["index_problem"] = r.IndexProblem
	}
	return json.Marshal(doc)
}

// unreadable are the samples that cannot be read, as far as is known.
func (s indexResult) unreadable() []badFile {
	bad := []badFile{}
	for i := range s.Len() {
		if reason := cmp.Or(s.Problem(i), s.Unread(i)); reason != "" {
			bad = append(bad, newBadFile(s.Path(i), i, reason))
		}
	}
	return bad
}

func (s indexResult) print(out io.Writer) {
	r, bad, t := s.Report(), s.unreadable(), newTable(out)
	t.row("dataset", "%s", shown(s.Root()))
	t.row("images", "%d", r.Samples)
	t.row("classes", "%d", r.Classes)
	t.row("formats", "%s", formatCounts(r.Formats))
	t.row("encoded", "%s", formatBytes(r.Bytes))
	t.row("largest", "%d x %d (height x width)", r.MaxHeight, r.MaxWidth)
	ignored := count(r.Ignored, "file")
	if r.Ignored > 0 {
		ignored += " (" + r.IgnoredKinds() + ")"
	}
	t.row("ignored", "%s", ignored)
	t.row("unreadable", "%d", len(bad))
	t.row("scanned", "%d headers read, %d known from before", r.Scanned, r.Reused)
	if index := s.IndexPath(); index != "" {
		t.row("index", "%s", shown(index))
	} else {
		t.row("index", "not kept: %s", cmp.Or(r.IndexProblem, "there is no directory for it; see batchfs doctor"))
	}
	t.end()
	printBad(out, bad)
}

// formatCounts lists the formats, most frequent first.
func formatCounts(formats map[string]int) string {
	names := slices.SortedFunc(maps.Keys(formats), func(a, b string) int {
		return cmp.Or(formats[b]-formats[a], strings.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, formats[name])
	}
	return strings.Join(names, ", ")
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

// printBad lists files that cannot be read, one per line.
func printBad(out io.Writer, bad []badFile) {
	for _, b := range bad {
		fmt.Fprintf(out, "%s: %s\n", shown(b.Path), b.Reason)
	}
}

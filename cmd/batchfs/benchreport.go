package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/batchfs/batchfs/decode"
)

// benchReport is the JSON output of bench. Rates are medians over the rounds; ratios are
// medians of the per-round ratios.
type benchReport struct {
	Samples         int     `json:"samples"`
	Rounds          int     `json:"rounds"`
	ReadPath        string  `json:"read_path"`
	Decoder         string  `json:"decoder"`
	CeilingImages   float64 `json:"ceiling_images_per_second"`
	MappedImages    float64 `json:"mapped_images_per_second"`
	MappedRatio     float64 `json:"mapped_ratio"`
	ReadImages      float64 `json:"read_images_per_second"`
	ReadRatio       float64 `json:"read_ratio"`
	FirstBatch      float64 `json:"first_batch_seconds"`
	FirstBatchRatio float64 `json:"first_batch_ratio"`
	FinishedMapped  float64 `json:"finished_mapped_bytes_per_second"`
	FinishedMapR    float64 `json:"finished_mapped_ratio"`
	FinishedRead    float64 `json:"finished_read_bytes_per_second"`
	FinishedReadR   float64 `json:"finished_read_ratio"`
	DaemonReads     int64   `json:"daemon_reads"`
}

func (b *bench) report() benchReport {
	median := func(figure func(round) float64) float64 { return medianOf(b.rounded, figure) }
	last := b.rounded[len(b.rounded)-1]
	first := func(r round) float64 { return r.mapped.FirstSeconds }
	alone := func(r round) float64 { return float64(min(b.engine.BatchSize, b.ds.Len())) / r.ceiling }
	return benchReport{
		Samples: b.ds.Len(), Rounds: b.rounds, ReadPath: last.readPath, Decoder: decode.Version(),
		CeilingImages:   median(func(r round) float64 { return r.ceiling }),
		MappedImages:    median(func(r round) float64 { return r.mapped.ImagesPerSecond }),
		MappedRatio:     median(func(r round) float64 { return r.mapped.ImagesPerSecond / r.ceiling }),
		ReadImages:      median(func(r round) float64 { return r.read.ImagesPerSecond }),
		ReadRatio:       median(func(r round) float64 { return r.read.ImagesPerSecond / r.ceiling }),
		FirstBatch:      median(first),
		FirstBatchRatio: median(func(r round) float64 { return first(r) / alone(r) }),
		FinishedMapped:  median(func(r round) float64 { return r.finishedMapped }),
		FinishedMapR:    median(func(r round) float64 { return r.finishedMapped / max(r.plainMapped, 1) }),
		FinishedRead:    median(func(r round) float64 { return r.finishedRead }),
		FinishedReadR:   median(func(r round) float64 { return r.finishedRead / max(r.plainRead, 1) }),
		DaemonReads:     last.daemonReads,
	}
}

func medianOf(rounds []round, figure func(round) float64) float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = figure(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func (r benchReport) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(what, value, against string) { fmt.Fprintf(w, "%s\t%s\t%s\n", what, value, against) }
	images := func(v float64) string { return fmt.Sprintf("%.0f images/s", v) }
	speed := func(v float64) string { return fmt.Sprintf("%.1f GB/s", v/1e9) }
	of := func(ratio float64, what string) string { return fmt.Sprintf("%.2f of %s", ratio, what) }
	row("decoding alone, all CPUs", images(r.CeilingImages), "the ceiling: "+r.Decoder)
	row("one epoch, mapped", images(r.MappedImages), of(r.MappedRatio, "the ceiling"))
	row("one epoch, by read", images(r.ReadImages), of(r.ReadRatio, "the ceiling"))
	row("first batch after the mount", fmt.Sprintf("%.0f ms", r.FirstBatch*1e3), of(r.FirstBatchRatio, "decoding it alone"))
	row("a finished batch, mapped", speed(r.FinishedMapped), of(r.FinishedMapR, "a plain file in memory"))
	row("a finished batch, by read", speed(r.FinishedRead), of(r.FinishedReadR, "a plain file in memory"))
	row("read path", r.ReadPath, "")
	if r.ReadPath == "passthrough" {
		row("reads that reached the daemon", strconv.FormatInt(r.DaemonReads, 10), "")
	}
	return w.Flush()
}

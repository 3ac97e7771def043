package fusefs

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/batchfs/batchfs/engine"
)

// A metric is one family of samples in the text format of Prometheus.
type metric struct {
	name, kind, help string
	samples          []sample
}

// A sample is a value with the labels that distinguish it within its family.
type sample struct {
	labels string // as written, braces included; "" for none
	value  float64
}

func one(v float64) []sample      { return []sample{{"", v}} }
func label(name, v string) string { return "{" + name + "=" + strconv.Quote(v) + "}" }
func counter(name, help string, samples ...sample) metric {
	return metric{name, "counter", help, samples}
}

func gauge(name, help string, samples ...sample) metric {
	return metric{name, "gauge", help, samples}
}

// metrics renders the statistics for Prometheus. refused counts the batches that the kernel
// refused to serve itself.
func metrics(s Stats, refused int64) []byte {
	families := append([]metric{
		gauge("info", "The mount: 1, labelled with the way batches are read.", sample{label("read_path", s.ReadPath), 1}),
		gauge("uptime_seconds", "Time since the engine started.", one(s.Uptime)...),
		counter("images_total", "Samples delivered in finished batches.", one(float64(s.Images))...),
		gauge("images_per_second", "Samples delivered, over the last seconds.", one(s.ImagesPerSecond)...),
		gauge("bytes_per_second", "Bytes of batches made, over the last seconds.", one(s.BytesPerSecond)...),
		counter("fuse_opens_total", "Open requests of the kernel, but for files below .batchfs.", one(float64(s.FUSE.Opens))...),
		counter("fuse_reads_total", "Read requests of the kernel, but for files below .batchfs.", one(float64(s.FUSE.Reads))...),
		counter("passthrough_refused_total", "Batches that the kernel would not serve by itself.", one(float64(refused))...),
		counter("storage_reads_total", "Files read from the dataset.", one(float64(s.Storage.Reads))...),
		counter("storage_bytes_total", "Bytes read from the dataset.", one(float64(s.Storage.Bytes))...),
		counter("errors_total", "Samples that could not be read.", one(float64(s.Errors))...),
	}, batchMetrics(s.Batches)...)
	families = append(families, memoryMetrics(s.Memory)...)
	families = append(families, epochMetrics(s.Epochs)...)
	var out bytes.Buffer
	for _, m := range families {
		m.write(&out)
	}
	return out.Bytes()
}

func batchMetrics(b engine.BatchStats) []metric {
	return []metric{
		counter("batches_decoded_total", "Batches that were completed.", one(float64(b.Decoded))...),
		counter("batches_opened_total", "Times a batch was opened.", one(float64(b.Opened))...),
		gauge("batches_waiting", "Opens that wait for a batch now.", one(float64(b.Waiting))...),
		gauge("batches_ahead", "Batches made ahead that nobody opened yet.", one(float64(b.Ahead))...),
		gauge("streams", "Readings that are followed.", one(float64(b.Streams))...),
		counter("stalls_total", "Opens that had to wait.", one(float64(b.Stalled))...),
		counter("stall_seconds_total", "Time that opens waited.", one(b.StallSeconds)...),
	}
}

func memoryMetrics(m engine.MemoryStats) []metric {
	use := func(name string, v int64) sample { return sample{label("use", name), float64(v)} }
	return []metric{
		gauge("memory_limit_bytes", "What the daemon may use.", one(float64(m.Limit))...),
		gauge("memory_used_bytes", "What it uses.", one(float64(m.Used))...),
		gauge("memory_peak_bytes", "The most it ever used.", one(float64(m.Peak))...),
		gauge("memory_bytes", "What it uses, by what for.",
			use("batches", m.Batches), use("cache", m.Cache), use("index", m.Index), use("scratch", m.Scratch)),
	}
}

func epochMetrics(epochs []engine.EpochStats) []metric {
	batches := counter("epoch_batches_total", "Batches made, by epoch.")
	hits := counter("epoch_cache_hits_total", "Samples that came from the cache, by epoch.")
	misses := counter("epoch_cache_misses_total", "Samples that came from storage, by epoch.")
	bytes := counter("epoch_storage_bytes_total", "Bytes read from the dataset, by epoch.")
	for _, e := range epochs {
		at := label("epoch", strconv.Itoa(e.Epoch))
		batches.samples = append(batches.samples, sample{at, float64(e.Batches)})
		hits.samples = append(hits.samples, sample{at, float64(e.Hits)})
		misses.samples = append(misses.samples, sample{at, float64(e.Misses)})
		bytes.samples = append(bytes.samples, sample{at, float64(e.StorageBytes)})
	}
	return []metric{batches, hits, misses, bytes}
}

func (m metric) write(out *bytes.Buffer) {
	fmt.Fprintf(out, "# HELP batchfs_%s %s\n# TYPE batchfs_%s %s\n", m.name, m.help, m.name, m.kind)
	for _, s := range m.samples {
		fmt.Fprintf(out, "batchfs_%s%s %s\n", m.name, s.labels, strconv.FormatFloat(s.value, 'g', -1, 64))
	}
}

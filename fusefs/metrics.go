package fusefs

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/batchfs/batchfs/store"
)

// A metric is one family of samples in the text format of Prometheus.
type metric struct {
	name, help string // the name of a counter ends in _total
	samples    []sample
}

// A sample is a value, with the label that distinguishes it within its family, if any.
type sample struct {
	label, of string
	value     float64
}

// metrics renders the statistics for Prometheus. refused counts the batches that the kernel
// refused to serve itself.
func metrics(s Stats, refused int64) []byte {
	one := func(v float64) []sample { return []sample{{value: v}} }
	count := func(n int64) []sample { return one(float64(n)) }
	labelled := func(label string) func(name string, v int64) sample {
		return func(name string, v int64) sample { return sample{label, name, float64(v)} }
	}
	use, reason, result := labelled("use"), labelled("reason"), labelled("result")
	b, m, j, e := s.Batches, s.Memory, s.JPEGs, s.JPEGs.Entries
	families := []metric{
		{"info", "Always 1; its label says how batches are read.", []sample{{"read_path", s.ReadPath, 1}}},
		{"uptime_seconds", "Time since the engine started.", one(s.Uptime)},
		{"images_total", "Samples delivered in finished batches.", count(s.Images)},
		{"images_per_second", "Samples delivered per second, over the last seconds.", one(s.ImagesPerSecond)},
		{"bytes_per_second", "Bytes of batches made per second, over the last seconds.", one(s.BytesPerSecond)},
		{"fuse_opens_total", "Open requests from the kernel, except for files below .batchfs.", count(s.FUSE.Opens)},
		{"fuse_reads_total", "Read requests from the kernel, except for files below .batchfs.", count(s.FUSE.Reads)},
		{"passthrough_refused_total", "Batches that the kernel refused to serve itself.", count(refused)},
		{"storage_reads_total", "Files read from the dataset.", count(s.Storage.Reads)},
		{"storage_bytes_total", "Bytes read from the dataset.", count(s.Storage.Bytes)},
		{"jpegs_total", "JPEGs decoded.", count(j.GPU + j.All())},
		{"jpegs_gpu_total", "JPEGs decoded by the GPU.", count(j.GPU)},
		{"jpegs_left_total", "JPEGs that batchfs left to libjpeg-turbo, by reason.", []sample{
			reason("kind", j.Kind), reason("sampling", j.Sampling), reason("scale", j.Scale), reason("header", j.Header), reason("data", j.Data),
		}},
		{"jpeg_entry_points_total", "JPEGs whose entry points were used, were made, or turned out not to exist or to be wrong.", []sample{
			result("used", e.Used), result("made", e.Made), result("none", e.None), result("wrong", e.Wrong),
		}},
		{"errors_total", "Samples that could not be read.", count(s.Errors)},
		{"batches_decoded_total", "Batches completed.", count(b.Decoded)},
		{"batches_opened_total", "Times a batch was opened.", count(b.Opened)},
		{"batches_waiting", "Opens waiting for a batch now.", count(b.Waiting)},
		{"batches_ahead", "Batches made ahead and not opened yet.", count(b.Ahead)},
		{"streams", "Readers being followed.", count(b.Streams)},
		{"stalls_total", "Opens that had to wait.", count(b.Stalled)},
		{"stall_seconds_total", "Total time that opens waited.", one(b.StallSeconds)},
		{"memory_limit_bytes", "Memory that the daemon may use.", count(m.Limit)},
		{"memory_used_bytes", "Memory in use.", count(m.Used)},
		{"memory_peak_bytes", "Most memory ever in use.", count(m.Peak)},
		{"memory_bytes", "Memory in use, by purpose.", []sample{
			use("batches", m.Batches), use("cache", m.Cache), use("pages", m.Pages), use("index", m.Index), use("scratch", m.Scratch),
		}},
	}
	families = append(families, optionalMetrics(s)...)
	epochs := [5]metric{
		{name: "epoch_batches_total", help: "Batches made, by epoch."},
		{name: "epoch_cache_hits_total", help: "Samples that came from the cache, by epoch."},
		{name: "epoch_cache_misses_total", help: "Samples that came from storage, by epoch."},
		{name: "epoch_local_cache_hits_total", help: "Samples that came from the local cache as planned, by epoch."},
		{name: "epoch_storage_bytes_total", help: "Bytes read from the dataset, by epoch."},
	}
	for _, e := range s.Epochs {
		for i, v := range [5]int64{e.Batches, e.Hits, e.Misses, e.LocalHits, e.StorageBytes} {
			epochs[i].samples = append(epochs[i].samples, sample{"epoch", strconv.Itoa(e.Epoch), float64(v)})
		}
	}
	var out bytes.Buffer
	for _, m := range append(families, epochs[:]...) {
		m.write(&out)
	}
	return out.Bytes()
}

// optionalMetrics are those of what not every mount has: a GPU, compressed pages, a store, a local cache.
func optionalMetrics(s Stats) (families []metric) {
	count := func(n int64) []sample { return []sample{{value: float64(n)}} }
	use := func(name string, n int64) sample { return sample{"use", name, float64(n)} }
	if g := s.GPU; g != nil {
		families = append(families,
			metric{"gpu_memory_bytes", "Memory of the GPU: allocated for batches, in use by all processes, and in all.", []sample{
				use("batches", g.Batches), use("all", g.MemoryUsed), use("total", g.MemoryTotal),
			}},
			metric{"gpu_busy_ratio", "Share of the last moment in which the GPU ran a kernel; -1 if not known.", []sample{{value: g.Busy}}})
	}
	if p := s.Storage.Pages; p != nil {
		families = append(families,
			metric{"pages_loaded_total", "Compressed pages that were read and unpacked.", count(p.Loaded)},
			metric{"pages_served_total", "Reads of samples that found their page unpacked.", count(p.Served)},
			metric{"pages_refused_total", "Unpacked pages that the policy did not keep.", count(p.Refused)})
	}
	if r := s.Storage.Store; r != nil {
		families = append(families, storeMetrics(r)...)
	}
	if l := s.Storage.Local; l != nil {
		families = append(families,
			metric{"local_cache_bytes", "What the local cache holds of all datasets, and what it may hold.", []sample{use("used", l.Used), use("limit", l.Limit)}},
			metric{"local_cache_hits_total", "Reads of the object store that the local cache served.", count(l.Hits)},
			metric{"local_cache_misses_total", "Reads that the local cache did not serve.", count(l.Misses)},
			metric{"local_cache_damaged_total", "Parts of objects that failed their check, and were fetched again.", count(l.Damaged)})
	}
	return families
}

// storeMetrics are those of the requests to an object store.
func storeMetrics(r *store.Stats) []metric {
	count := func(n int64) []sample { return []sample{{value: float64(n)}} }
	return []metric{
		{"store_requests_total", "Requests sent to the object store, with those that were sent again.", count(r.Requests)},
		{"store_bytes_total", "Bytes of objects received.", count(r.Bytes)},
		{"store_retries_total", "Requests sent again after a failure.", count(r.Retries)},
		{"store_hedges_total", "Second requests, sent because the first was slow.", count(r.Hedges)},
		{"store_away_seconds_total", "Time in which the object store answered nobody.", []sample{{value: r.Away}}},
		{"store_throttled_total", "Answers that asked for fewer requests.", count(r.Throttled)},
		{"store_errors_total", "Reads that failed in the end.", count(r.Errors)},
		{"store_first_byte_seconds", "Time to the first byte of the last answers.", []sample{
			{"quantile", "0.5", r.FirstByte.P50}, {"quantile", "0.9", r.FirstByte.P90}, {"quantile", "0.99", r.FirstByte.P99},
		}},
	}
}

func (m metric) write(out *bytes.Buffer) {
	kind := "gauge"
	if strings.HasSuffix(m.name, "_total") {
		kind = "counter"
	}
	fmt.Fprintf(out, "# HELP batchfs_%s %s\n# TYPE batchfs_%s %s\n", m.name, m.help, m.name, kind)
	for _, s := range m.samples {
		label := ""
		if s.label != "" {
			label = fmt.Sprintf("{%s=%q}", s.label, s.of)
		}
		fmt.Fprintf(out, "batchfs_%s%s %s\n", m.name, label, strconv.FormatFloat(s.value, 'g', -1, 64))
	}
}

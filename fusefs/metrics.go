package fusefs

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/batchfs/batchfs/internal/engine"
)

// A figure is a value, with the label that distinguishes it within its family, if any.
type figure struct {
	label, of string
	value     float64
}

// single is the only figure of a family.
func single[T int64 | float64](v T) []figure { return []figure{{value: float64(v)}} }

// labelled returns the figures of a family, told apart by a label. names has the label's values, in
// the order of the figures.
func labelled[T int64 | float64](label, names string, values ...T) (all []figure) {
	for i, name := range strings.Fields(names) {
		all = append(all, figure{label, name, float64(values[i])})
	}
	return all
}

// metricsText is the text format of Prometheus.
type metricsText struct{ bytes.Buffer }

// add writes a family. The name of a counter ends in _total.
func (t *metricsText) add(name, help string, all []figure) {
	kind := "gauge"
	if strings.HasSuffix(name, "_total") {
		kind = "counter"
	}
	fmt.Fprintf(t, "# HELP batchfs_%s %s\n# TYPE batchfs_%s %s\n", name, help, name, kind)
	for _, s := range all {
		label := ""
		if s.label != "" {
			label = fmt.Sprintf("{%s=%q}", s.label, s.of)
		}
		fmt.Fprintf(t, "batchfs_%s%s %s\n", name, label, strconv.FormatFloat(s.value, 'g', -1, 64))
	}
}

// metrics renders the statistics for Prometheus. refused counts the batches that the kernel
// refused to serve itself.
func metrics(s Stats, refused int64) []byte {
	var t metricsText
	b, m, j, e := s.Batches, s.Memory, s.JPEGs, s.JPEGs.Entries
	t.add("info", "Always 1; its label says how batches are read.", []figure{{"read_path", s.ReadPath, 1}})
	t.add("uptime_seconds", "Time since the engine started.", single(s.Uptime))
	t.add("images_total", "Samples delivered in finished batches.", single(s.Images))
	t.add("images_per_second", "Samples delivered per second, over the last seconds.", single(s.ImagesPerSecond))
	t.add("bytes_per_second", "Bytes of batches made per second, over the last seconds.", single(s.BytesPerSecond))
	t.add("fuse_opens_total", "Open requests from the kernel, except for files below .batchfs.", single(s.FUSE.Opens))
	t.add("fuse_reads_total", "Read requests from the kernel, except for files below .batchfs.", single(s.FUSE.Reads))
	t.add("passthrough_refused_total", "Batches that the kernel refused to serve itself.", single(refused))
	t.add("storage_reads_total", "Files read from the dataset.", single(s.Storage.Reads))
	t.add("storage_bytes_total", "Bytes read from the dataset.", single(s.Storage.Bytes))
	t.add("packed_samples", "Samples that the cache keeps packed now.", single(s.Forms.Samples))
	t.add("packed_extra_bytes", "Memory that these take beyond what their files would.", single(s.Forms.Grown))
	t.add("packed_drawn_total", "Packed samples decoded.", single(s.Forms.Drawn))
	t.add("jpegs_total", "JPEGs decoded.", single(j.GPU+j.All()))
	t.add("jpegs_gpu_total", "JPEGs decoded by the GPU.", single(j.GPU))
	t.add("jpegs_left_total", "JPEGs that batchfs left to libjpeg-turbo, by reason.",
		labelled("reason", "kind sampling header data", j.Kind, j.Sampling, j.Header, j.Data))
	t.add("jpeg_entry_points_total", "JPEGs whose entry points were used, were made, or turned out not to exist or to be wrong.",
		labelled("result", "used made none wrong", e.Used, e.Made, e.None, e.Wrong))
	t.add("errors_total", "Samples that could not be read.", single(s.Errors))
	t.add("batches_decoded_total", "Batches completed.", single(b.Decoded))
	t.add("batches_opened_total", "Times a batch was opened.", single(b.Opened))
	t.add("batches_waiting", "Opens waiting for a batch now.", single(b.Waiting))
	t.add("batches_ahead", "Batches made ahead and not opened yet.", single(b.Ahead))
	t.add("streams", "Readers being followed.", single(b.Streams))
	t.add("stalls_total", "Opens that had to wait.", single(b.Stalled))
	t.add("stall_seconds_total", "Total time that opens waited.", single(b.StallSeconds))
	t.add("memory_limit_bytes", "Memory that the daemon may use.", single(m.Limit))
	t.add("memory_used_bytes", "Memory in use.", single(m.Used))
	t.add("memory_peak_bytes", "Most memory ever in use.", single(m.Peak))
	t.add("memory_bytes", "Memory in use, by purpose.",
		labelled("use", "batches cache pages index scratch", m.Batches, m.Cache, m.Pages, m.Index, m.Scratch))
	if g := s.GPU; g != nil {
		t.add("gpu_memory_bytes", "Memory of the GPU: allocated for batches, in use by all processes, and in all.",
			labelled("use", "batches all total", g.Batches, g.MemoryUsed, g.MemoryTotal))
		t.add("gpu_busy_ratio", "Share of the last moment in which the GPU ran a kernel; -1 if not known.", single(g.Busy))
	}
	if p := s.Storage.Pages; p != nil {
		t.add("pages_loaded_total", "Compressed pages that were read and unpacked.", single(p.Loaded))
		t.add("pages_served_total", "Reads of samples that found their page unpacked.", single(p.Served))
		t.add("pages_refused_total", "Unpacked pages that the policy did not keep.", single(p.Refused))
	}
	if r := s.Storage.Store; r != nil {
		t.add("store_requests_total", "Requests sent to the object store, with those that were sent again.", single(r.Requests))
		t.add("store_bytes_total", "Bytes of objects received.", single(r.Bytes))
		t.add("store_retries_total", "Requests sent again after a failure.", single(r.Retries))
		t.add("store_hedges_total", "Second requests, sent because the first was slow.", single(r.Hedges))
		t.add("store_away_seconds_total", "Time in which the object store answered nobody.", single(r.Away))
		t.add("store_throttled_total", "Answers that asked for fewer requests.", single(r.Throttled))
		t.add("store_errors_total", "Reads that failed in the end.", single(r.Errors))
		t.add("store_first_byte_seconds", "Time to the first byte of the last answers.",
			labelled("quantile", "0.5 0.9 0.99", r.FirstByte.P50, r.FirstByte.P90, r.FirstByte.P99))
	}
	if l := s.Storage.Local; l != nil {
		t.add("local_cache_bytes", "What the local cache holds of all datasets, and what it may hold.",
			labelled("use", "used limit", l.Used, l.Limit))
		t.add("local_cache_hits_total", "Reads of the object store that the local cache served.", single(l.Hits))
		t.add("local_cache_misses_total", "Reads that the local cache did not serve.", single(l.Misses))
		t.add("local_cache_damaged_total", "Parts of objects that failed their check, and were fetched again.", single(l.Damaged))
	}
	type epoch = engine.EpochStats
	each := func(of func(e epoch) int64) (all []figure) {
		for _, e := range s.Epochs {
			all = append(all, figure{"epoch", strconv.Itoa(e.Epoch), float64(of(e))})
		}
		return all
	}
	t.add("epoch_batches_total", "Batches made, by epoch.", each(func(e epoch) int64 { return e.Batches }))
	t.add("epoch_cache_hits_total", "Samples that came from the cache, by epoch.", each(func(e epoch) int64 { return e.Hits }))
	t.add("epoch_cache_misses_total", "Samples that came from storage, by epoch.", each(func(e epoch) int64 { return e.Misses }))
	t.add("epoch_local_cache_hits_total", "Samples that came from the local cache as planned, by epoch.",
		each(func(e epoch) int64 { return e.LocalHits }))
	t.add("epoch_storage_bytes_total", "Bytes read from the dataset, by epoch.", each(func(e epoch) int64 { return e.StorageBytes }))
	return t.Bytes()
}

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/layout"
)

// The minimum contents of every document, by example: keys, and values of the same type. A
// list has an example element; null stands for an optional value.
const (
	datasetExample = `{"samples":96,"classes":4,"formats":{},"layout":"nhwc","dtype":"uint8","shape":[32,null,null,3],"seed":7,"order":"...","decoder":"...","fingerprint":"...","settings":{}}`
	epochExample   = `{"shard":3,"epoch":2,"batches":25,"samples":800,"valid":797,"range":[2391,3188],"seed":7}`
	batchExample   = `{"shard":3,"epoch":2,"batch":17,"shape":[32,375,500,3],"dtype":"uint8","layout":"nhwc","seed":7,"valid":32,
		"samples":[{"id":51,"path":"b/51.jpg","label":1,"height":375,"width":500,"crop":[0,0,1,1],"flip":false,"status":"ok"}]}`
	statsExample = `{"read_path":"direct","uptime":1.0,"images":0,"images_per_second":0,"bytes_per_second":0,
		"batches":{"decoded":0,"opened":0,"waiting":0,"stalled":0,"stall_seconds":0},"fuse":{"opens":0,"reads":0},
		"memory":{"limit":0,"used":0,"batches":0,"cache":0,"index":0},"storage":{"reads":0,"bytes":0},"errors":0,
		"epochs":[{"epoch":0,"batches":0,"hits":0,"misses":0,"hits_per_batch":{"min":0,"max":0,"mean":0,"stddev":0},"storage_bytes":0,"kept":0,"kept_bytes":0,"not_kept":0}]}`
	memoryExample = `{"buffers":[{"name":"batch","kind":"host","real_memory_size":0,"max_real_memory_size":0,"reserved_memory_size":0,"max_reserved_memory_size":0,"locked":true}]}`
	errorExample  = `{"time":"...","path":"b/51.jpg","id":51,"reason":"..."}`
	planExample   = `{"shard":1,"epoch":0,"batches":[{"batch":0,"positions":[2,3,4],"ids":[2,3,4],"valid":3}]}`
)

// likeExample compares a document with an example.
func likeExample(t testing.TB, what string, text []byte, example string) {
	t.Helper()
	var got, want any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Errorf("%s: %v: %s", what, err, text)
		return
	}
	check(t, json.Unmarshal([]byte(example), &want))
	for _, complaint := range unlike(what, got, want) {
		t.Error(complaint)
	}
}

// unlike lists the differences between a value and an example.
func unlike(path string, got, want any) (complaints []string) {
	switch want := want.(type) {
	case nil:
		return nil
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			break
		}
		for key, value := range want {
			if _, ok := object[key]; !ok {
				complaints = append(complaints, fmt.Sprintf("%s has no %q", path, key))
				continue
			}
			complaints = append(complaints, unlike(path+"."+key, object[key], value)...)
		}
		return complaints
	case []any:
		list, ok := got.([]any)
		if !ok {
			break
		}
		for i, value := range list {
			complaints = append(complaints, unlike(fmt.Sprintf("%s[%d]", path, i), value, want[min(i, len(want)-1)])...)
		}
		return complaints
	default:
		if fmt.Sprintf("%T", got) == fmt.Sprintf("%T", want) {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s is %v (%T), not like %v", path, got, got, want)}
}

// TestDocumentsHaveTheirKeys: every document has the keys that programs rely on, with the
// promised types.
func TestDocumentsHaveTheirKeys(t *testing.T) {
	s := spoiltImages(t)
	m := spoiltMount(t, s, "--read-path", "direct", "--on-error", "zero", "--shards", "2", "--epochs", "3", "--seed", "9", "--memory-limit", "256MiB")
	read := func(name string) []byte {
		t.Helper()
		return mustRead(t, filepath.Join(m.dir, name))
	}
	likeExample(t, "stats.json, unused", read(".batchfs/stats.json"), statsExample)
	if lines := read(".batchfs/errors.jsonl"); len(lines) > 0 {
		t.Errorf("errors.jsonl, when nothing was read: %s", lines)
	}
	for shard := range 2 {
		for epoch := range 2 {
			for batch := range spoiltCount / 4 {
				if _, err := os.ReadFile(m.path(shard, epoch, batch, layout.NHWCForm)); err != nil {
					t.Error(err)
				}
			}
		}
	}
	likeExample(t, "dataset.json", read("dataset.json"), datasetExample)
	likeExample(t, "epoch.json", read("shard-1/epoch-2/epoch.json"), epochExample)
	likeExample(t, "batch.json", read("shard-1/epoch-0/batch-00001.json"), batchExample)
	likeExample(t, "stats.json", read(".batchfs/stats.json"), statsExample)
	likeExample(t, "memory.json", read(".batchfs/memory.json"), memoryExample)
	var config struct {
		Dataset, Mountpoint string
		PID                 int
		Flags               map[string]any
	}
	if err := json.Unmarshal(read(".batchfs/config.json"), &config); err != nil {
		t.Error(err)
	}
	if config.Dataset != m.dataset || config.Mountpoint != m.dir || config.PID != m.pid() || config.Flags["seed"] != "9" && config.Flags["seed"] != 9.0 {
		t.Errorf("config.json says %+v", config)
	}
	if cache, ok := config.Flags["cache-size"].(float64); !ok || cache <= 0 || cache >= 256<<20 {
		t.Errorf("config.json says that the cache is of %v bytes", config.Flags["cache-size"])
	}
	if got := string(read("classes.txt")); got != "cats\ndogs\n" {
		t.Errorf("classes.txt is %q", got)
	}
	lines := slices.Collect(bytes.Lines(read(".batchfs/errors.jsonl")))
	for _, line := range lines {
		likeExample(t, "errors.jsonl", line, errorExample)
	}
	if len(lines) != len(s.bad) {
		t.Errorf("errors.jsonl has %d lines", len(lines))
	}
	stats := m.stats(t)
	if b := stats.Batches; stats.ReadPath != "direct" || b.Opened != spoiltCount+1 || b.Decoded < spoiltCount || b.Waiting != 0 || stats.Errors != int64(len(s.bad)) {
		t.Errorf("%+v", stats)
	}
	if mem := stats.Memory; mem.Limit != 256<<20 || mem.Used <= 0 || mem.Batches <= 0 || stats.Storage.Bytes <= 0 || stats.Images < 2*spoiltCount || stats.Uptime <= 0 {
		t.Errorf("%+v", stats)
	}
	if len(stats.Epochs) < 2 || stats.Epochs[0].Batches < spoiltCount/2 {
		t.Errorf("by epoch: %+v", stats.Epochs)
	}
	metrics := string(read(".batchfs/metrics"))
	if opened := fmt.Sprintf("\nbatchfs_batches_opened_total %d\n", spoiltCount+1); !strings.Contains(metrics, opened) {
		t.Errorf("the metrics have no %q", opened)
	}
}

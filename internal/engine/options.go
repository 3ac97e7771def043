package engine

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/machine"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/pinned"
)

// Options are the settings of an engine. The zero value is not usable: New rejects it with
// a reason.
type Options struct {
	catalog.Options // the bytes of batches depend on these

	// How batches are made. None of these changes their bytes.
	Workers       int           // processors to decode with, of CPUs
	CPUs          int           // processors that there are, by affinity and by the quota of the control group; 0: by affinity
	Loads         int           // most samples on their way from storage at once; as many as help are used; 0: 128, or fewer if memory is short
	BatchWorkers  int           // maximum number of batches in the making
	PrefetchDepth int           // batches made ahead, per stream
	MemoryLimit   int64         // bytes
	MemoryWait    time.Duration // how long an Open waits for its turn when the limit is used up; 0: 10 s
	CacheSize     int64         // bytes for encoded samples between epochs; AutoCache; 0: no cache
	CachePolicy   cache.Policy
	CacheForm     Form
	LocalFrom     int // the shards read here, LocalTo excluded; both 0: all
	LocalTo       int
	Memory        pinned.Policy
	Lock          bool             // page-lock batch memory if the kernel allows it
	Hints         Hints            // initial sizes of the buffers
	Affinity      []machine.CPUs   // the CPUs of each worker; nil: any
	NearDevice    machine.CPUs     // the CPUs of threads that work for the GPU; nil: any
	IdleAfter     time.Duration    // how long a stream may be idle before its batches are given back; 0: 1 min
	Anonymous     bool             // keep batches in anonymous memory, which the kernel cannot serve from
	Entries       decode.EntryRule // which entry points of JPEGs are used and added, in a file beside the index; EntryOff: none
	StrictEntries bool             // replace a file that has entry points at other places
	VerifyReads   bool             // use entry points only if a file's bytes are those the entry points were made from
	Device        *gpu.Device      // the GPU that batches are put on; nil: none. It must outlive the engine
	// DecodeOnDevice lets the GPU decode JPEGs and make samples of them, beside the processors.
	// With NVJPEG, DecodeOnDevice and Entries have no effect.
	DecodeOnDevice bool
	// Remedy says what a user can do about an error of Open that is not the fault of a file; nil:
	// the log says nothing about it.
	Remedy func(error) string
	Logger *slog.Logger
}

// VectorLevels are the sets of vector instructions that this build can use on this processor. Each
// set includes those before it.
func VectorLevels() (names []string) {
	for _, k := range resample.Kernels()[1:] { // all but plain Go's
		names = append(names, k.String())
	}
	return names
}

// UseVectors has everything computed with a level of vector instructions, one of VectorLevels.
func (o *Options) UseVectors(level string) {
	for _, k := range resample.Kernels() {
		if k.String() == level {
			o.Decoding.Kernel = k
		}
	}
}

// Hints are the bytes per sample of each buffer, as found in the memory.json of an earlier run.
// Buffers of these sizes are allocated before the first sample, and stay.
type Hints struct{ Batch, Input, Scratch int64 }

// defaultIdle is longer than any training step, and shorter than an evaluation.
const defaultIdle = time.Minute

// withDefaults fills in what may be left out.
func (o Options) withDefaults() Options {
	if o.Memory == (pinned.Policy{}) {
		o.Memory = pinned.DefaultPolicy()
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Remedy == nil {
		o.Remedy = func(error) string { return "" }
	}
	o.MemoryWait = cmp.Or(max(0, o.MemoryWait), 10*time.Second)
	o.IdleAfter = cmp.Or(max(0, o.IdleAfter), defaultIdle)
	return o
}

// validate returns an *option.Error for the first bad setting that is not the catalog's.
func (o *Options) validate() error {
	err := cmp.Or(
		option.AtLeast("workers", int64(o.Workers), 1),
		option.AtLeast("loads", int64(o.Loads), 0),
		option.AtLeast("batch workers", int64(o.BatchWorkers), 1),
		option.AtLeast("prefetch queue depth", int64(o.PrefetchDepth), 0),
		option.AtLeast("memory limit", o.MemoryLimit, 1),
		option.AtLeast("bytes per sample", min(o.Hints.Batch, o.Hints.Input, o.Hints.Scratch), 0),
		option.AtLeast("cache size", o.CacheSize, AutoCache),
	)
	switch n := len(o.Affinity); {
	case err != nil:
		return err
	case o.NVJPEG != "" && o.Device == nil:
		return &option.Error{Field: "nvJPEG", Rule: "a GPU", Value: "none"}
	case n != 0 && n != o.Workers:
		return &option.Error{Field: "affinity", Rule: fmt.Sprintf("the CPUs of all %d workers", o.Workers), Value: fmt.Sprintf("those of %d", n)}
	}
	return nil
}

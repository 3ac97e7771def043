package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/catalog"
	"github.com/batchfs/batchfs/internal/testkit"
	"github.com/batchfs/batchfs/layout"
)

// inPairs is for engines that decode JPEGs in pairs, with one drawer.
func inPairs(o *Options) { o.Workers, o.Decoding.Kernel = 1, decode.Portable }

// shrunk makes whole images so small that JPEGs are decoded at a reduced scale.
func shrunk(o *Options) {
	o.Transform.Mode, o.Transform.Height, o.Transform.Width = resample.Stretch, 12, 16
}

// outcome returns what readers see of all batches.
func outcome(t *testing.T, e *Engine) (all []string) {
	for _, k := range allKeys(e) {
		f, err := e.Open(t.Context(), k, layout.NHWCForm)
		if err != nil {
			all = append(all, err.Error())
			continue
		}
		all = append(all, string(f.Bytes()))
		f.Close()
		if e.catalog.Options.OnError != Fail {
			all = append(all, fmt.Sprint(samplesOf(t, e, k)))
		}
	}
	return all
}

// sameOutcome checks what readers see of all batches.
func sameOutcome(t *testing.T, e *Engine, want []string) {
	t.Helper()
	if !slices.Equal(outcome(t, e), want) {
		t.Error("other bytes, samples or errors")
	}
}

// TestPairsMakeTheSameBytes: whole images and crops have the same bytes, in their batches' own
// memory and through scratch memory, and at a reduced scale. This also holds if some files are
// damaged or gone, under every policy.
func TestPairsMakeTheSameBytes(t *testing.T) {
	const n = 14
	files := os.DirFS(jpegDir(t, n))
	name := func(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("%02d.jpg", i)) }
	for _, bad := range [][]int{nil, {0}, {1}, {0, 1}, {2, 5, 8, 9}} {
		for _, gone := range []bool{false, true} {
			for _, policy := range []catalog.OnError{Fail, Zero, Replace} {
				for _, mode := range []resample.Mode{resample.None, resample.RandomResizedCrop, resample.Stretch} {
					if gone && bad == nil {
						continue
					}
					dir := t.TempDir()
					testkit.Must(t, os.CopyFS(dir, files))
					for _, i := range bad {
						damage(t, name(dir, i))
					}
					change := func(o *Options) {
						o.OnError, o.Transform.Mode, o.PrefetchDepth, o.Epochs = policy, mode, 0, 2
						o.Transform.CropArea, o.Transform.CropRatio = resample.DefaultCropArea, resample.DefaultCropRatio
						switch mode {
						case resample.RandomResizedCrop:
							large(o)
						case resample.Stretch:
							shrunk(o)
						}
					}
					remove := func() {
						for _, i := range bad {
							if gone {
								_ = os.Remove(name(dir, i))
							}
						}
					}
					e := start(t, dir, inPairs, change)
					turbo := start(t, dir, change, func(o *Options) { o.Workers, o.Decoding.Kernel = 1, decode.LibJPEG })
					remove()
					if got, want := outcome(t, e), outcome(t, turbo); !slices.Equal(got, want) {
						t.Errorf("%v are bad, gone %t, %s, %s: other bytes, samples or errors", bad, gone, policy, mode)
					}
				}
			}
		}
	}
}

// TestPairWithAReadThatHangs: a sample that a drawer has read is drawn although the read of the one
// that was to be drawn together with it hangs.
func TestPairWithAReadThatHangs(t *testing.T) {
	ds := openDataset(t, jpegDir(t, 8))
	synctest.Test(t, func(t *testing.T) {
		o := testOptions()
		inPairs(&o)
		o.Anonymous, o.BatchSize, o.PrefetchDepth = true, 8, 0
		e, err := build(ds, o)
		testkit.Must(t, err)
		defer e.Close()
		e.flow.ownReads = ownReads{}
		gate, reads := make(chan struct{}), atomic.Int32{}
		e.wrapLoaders(func(l loader) loader {
			return faultyLoader{l, func(int64) error {
				time.Sleep(time.Millisecond)
				if reads.Add(1) == 2 {
					<-gate
				}
				return nil
			}}
		})
		e.start()
		opened := make(chan error)
		go func() { opened <- opens(e, Key{}, layout.NHWCForm) }()
		time.Sleep(2 * stallAfter)
		if n := e.Stats().JPEGs.All(); n != 1 {
			t.Errorf("%d samples were drawn while the second read hangs", n)
		}
		if !e.locked(e.flow.isIdle) {
			t.Error("something else is under way")
		}
		close(gate)
		if err := <-opened; err != nil {
			t.Error(err)
		}
	})
}

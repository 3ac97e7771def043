package throughput

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/internal/daemon"
	"github.com/batchfs/batchfs/internal/testkit"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{4, 2}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{8, 1, 2, 4}, 3}} {
		before := slices.Clone(c.x)
		if got := Median(c.x); got != c.want || !slices.Equal(c.x, before) {
			t.Errorf("the median of %v is %v, want %v; it changed it to %v", before, got, c.want, c.x)
		}
	}
}

// TestTraining: batches are read in order, epoch after epoch, and every byte of them is looked at.
// There are two epochs of three batches, the last one of them empty, as partial batches may be.
func TestTraining(t *testing.T) {
	m := &daemon.Mount{Dir: t.TempDir()}
	save := func(path string, content []byte) {
		testkit.Must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)))
	}
	for e := range 2 {
		for b := range 3 {
			save(m.Batch(1, e, b), bytes.Repeat([]byte{1}, 5001*(2-b)))
		}
	}
	save(filepath.Join(m.Dir, "shard-1/epoch-0/epoch.json"), []byte(`{"shard":1,"epoch":0,"batches":3,"samples":12,"valid":10}`))
	ended, end := context.WithCancel(t.Context())
	end()
	f, err := os.Open(m.Batch(1, 0, 0))
	testkit.Must(t, err)
	defer f.Close()
	for name, read := range map[string]Reader{"mapped": Mapped, "read": Reading(true)} {
		training, err := NewTraining(m, 1, read)
		testkit.Must(t, err)
		found.Store(0)
		size, err := training.Take(t.Context(), 5)
		if err != nil || size != 6*5001 || found.Load() != size || training.Next != 5 || training.Samples != 10 {
			t.Errorf("%s: %d bytes, of which %d, %+v, %v", name, size, found.Load(), training, err)
		}
		speed, err := read.Speed(t.Context(), f, 3)
		if _, interrupted := read.Speed(ended, f, 3); speed <= 0 || err != nil || interrupted == nil {
			t.Errorf("%s: %v bytes a second, %v, %v", name, speed, err, interrupted)
		}
		training.Next = 6 // there is no third epoch
		if _, err := training.Take(t.Context(), 1); !os.IsNotExist(err) {
			t.Errorf("a missing file: %v", err)
		}
	}
	if _, err := NewTraining(m, 0, Mapped); err == nil {
		t.Error("there is no shard 0")
	}
}

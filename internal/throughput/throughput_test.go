package throughput

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/batchfs/batchfs/internal/daemon"
)

func TestFigure(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want Figure
	}{
		{[]float64{3}, Figure{3, 3, 3}},
		{[]float64{4, 2}, Figure{3, 2, 4}},
		{[]float64{9, 1, 5}, Figure{5, 1, 9}},
		{[]float64{8, 1, 2, 4}, Figure{3, 1, 8}},
	} {
		before := slices.Clone(c.x)
		if got := FigureOf(c.x); got != c.want {
			t.Errorf("FigureOf(%v) = %v, want %v", c.x, got, c.want)
		}
		if !slices.Equal(c.x, before) {
			t.Errorf("FigureOf changed %v to %v", before, c.x)
		}
	}
}

// TestTouch: every byte has a part in what Touch finds, whatever the length.
func TestTouch(t *testing.T) {
	memory := make([]byte, 100)
	for n := range memory {
		for i := range n {
			memory[i] = 1
			found.Store(0)
			if Touch(memory[:n]); found.Load() != 1 {
				t.Fatalf("byte %d of %d is not read", i, n)
			}
			memory[i] = 0
		}
	}
}

// epoch makes a directory like a mount with two epochs of three batches, the last one of them
// empty, as partial batches may be.
func epoch(t *testing.T) *daemon.Mount {
	t.Helper()
	m := &daemon.Mount{Dir: t.TempDir()}
	for e := range 2 {
		for b := range 3 {
			path := m.Batch(1, e, b)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, bytes.Repeat([]byte{1}, 5001*(2-b)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	text := `{"shard":1,"epoch":0,"batches":3,"samples":12,"valid":10}`
	if err := os.WriteFile(filepath.Join(m.Dir, "shard-1/epoch-0/epoch.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTraining(t *testing.T) {
	m := epoch(t)
	for name, read := range map[string]Reader{"mapped": Mapped, "read": Reading(0, true), "in chunks": Reading(1<<10, true)} {
		training, err := NewTraining(m, 1, read)
		if err != nil {
			t.Fatal(err)
		}
		if size, err := training.Take(t.Context(), 5); err != nil || size != 6*5001 || training.Next != 5 || training.Samples != 10 {
			t.Errorf("%s: %d bytes, %+v, %v", name, size, training, err)
		}
	}
	training, err := NewTraining(m, 1, Mapped)
	if err != nil {
		t.Fatal(err)
	}
	training.Next = 6 // there is no third epoch
	if _, err := training.Take(t.Context(), 1); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := NewTraining(m, 0, Mapped); err == nil {
		t.Error(fmt.Sprint("there is no shard 0 in ", m.Dir))
	}
}

package archive

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestSums: all samples that other programs wrote have checksums, which are right, and which damage
// contradicts.
func TestSums(t *testing.T) {
	entries, err := os.ReadDir("testdata")
	testkit.Must(t, err)
	checked := map[string]int{}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".gz")
		if !strings.HasSuffix(name, ".zip") && !strings.Contains(name, ".tfrecord") {
			continue
		}
		b := read(t, name)
		c, err := scan(name, b, Options{})
		if err != nil {
			continue // another test has it
		}
		for i, s := range c.Samples {
			if c.Problems[i] != "" || s.Coding != Plain {
				continue
			}
			if s.Sum == NoSum {
				t.Errorf("%s, %s: no checksum", name, s.Name)
				continue
			}
			data := bytes.Clone(sample(t, b, s))
			if err := s.Check(data); err != nil {
				t.Errorf("%s, %s: %v", name, s.Name, err)
			}
			if len(data) > 0 {
				data[len(data)/2] ^= 4
				if err := s.Check(data); !errors.Is(err, ErrBad) {
					t.Errorf("%s, %s, damaged: %v", name, s.Name, err)
				}
			}
			checked[c.Kind]++
		}
	}
	if checked["zip"] == 0 || checked["tfrecord"] == 0 {
		t.Errorf("only %v", checked)
	}
}

package archive

import (
	"bytes"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// TestMiddle: the checksum of a part follows from those of the others and of the whole.
func TestMiddle(t *testing.T) {
	if power(order) != one || power(1) == one {
		t.Error("the order of x is another")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var parts [3][]byte
		for i := range parts {
			parts[i] = make([]byte, r.IntN(1<<r.IntN(12)))
			for k := range parts[i] {
				parts[i][k] = byte(r.Uint32())
			}
		}
		whole := crc32.Checksum(bytes.Join(parts[:], nil), castagnoli)
		if got, want := middle(whole, parts[0], int64(len(parts[1])), parts[2]), crc32.Checksum(parts[1], castagnoli); got != want {
			t.Fatalf("of %d, %d and %d bytes: %x, not %x", len(parts[0]), len(parts[1]), len(parts[2]), got, want)
		}
	}
}

// TestSums: what other programs wrote has checksums for all samples, which are right, and which damage does not have.
func TestSums(t *testing.T) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	checked := map[string]int{}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".gz")
		if !strings.HasSuffix(name, ".zip") && !strings.Contains(name, ".tfrecord") {
			continue
		}
		b := read(t, name)
		c, err := scan(name, b, Options{})
		if err != nil {
			continue // of another test
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

package dataset

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

func TestLoadPart(t *testing.T) { eachWay(t, testLoadPart) }

// testLoadPart: the requested bytes are in their place. Other bytes are not read, except for
// rounding to the storage's unit.
func testLoadPart(t *testing.T, how Storage) {
	p := newPlace(t)
	p.how = how
	var text strings.Builder
	text.WriteString(image("jpeg", 10, 20, 1))
	for i := 0; text.Len() < 300_000; i++ {
		text.WriteByte(byte('a' + i%26))
		text.WriteString(strings.Repeat("z", i%7))
	}
	content := text.String()
	p.write("a.jpg", content)
	p.write("small.jpg", content[:HeadBytes+100])
	d := p.open("")
	n := int64(len(content))
	for _, c := range []struct {
		name     string
		from, to int64
		ok       bool
		most     int64 // limit of the bytes read
	}{
		{"all", 0, 0, false, n},
		{"beginning", 0, 5000, true, 2*HeadBytes + 5000},
		{"middle", 100_001, 120_000, true, 3*HeadBytes + 20_000},
		{"end", n - 10, n, true, 2*HeadBytes + 10},
		{"in the head", 100, 200, true, HeadBytes},
		{"nearly all", 5000, n - 1, true, n},
		{"backwards", 5000, 4000, true, n},
		{"before", -1, 4000, true, n},
		{"behind", 1000, n + 1, true, n},
	} {
		calls := 0
		part := func(head []byte, size int64) (int64, int64, bool) {
			calls++
			if size != n || string(head) != content[:HeadBytes] {
				t.Errorf("%s: shown %d bytes, of %d", c.name, len(head), size)
			}
			return c.from, c.to, c.ok
		}
		buf := alignedRoom(len(content) + 2*directUnit)
		data, read, id, err := d.LoadPart(context.Background(), 0, 0, buf, grow, part, 0)
		if err != nil || int64(len(data)) != n || id.Size != n || calls != 1 {
			t.Fatalf("%s: %d bytes, %d calls, %v", c.name, len(data), calls, err)
		}
		if read > c.most || read < min(c.to-c.from, HeadBytes) {
			t.Errorf("%s: %d bytes were read", c.name, read)
		}
		from, to := c.from, c.to
		if c.most == n {
			from, to = 0, n
		}
		if string(data[:HeadBytes]) != content[:HeadBytes] || string(data[from:to]) != content[from:to] {
			t.Errorf("%s: other bytes", c.name)
		}
	}
	for _, c := range []struct {
		name            string
		first, from, to int64
		ok              bool
		most            int64
	}{
		{"one read does", 30_000, 5000, 29_000, true, 30_000 + HeadBytes},
		{"one read of nearly all", n - LeastInOne - HeadBytes, 5000, 29_000, true, n - LeastInOne},
		{"one read is not enough", 30_000, 5000, 60_000, true, 60_000 + HeadBytes},
		{"one read, and all after all", 30_000, 0, 0, false, n},
	} {
		part := func([]byte, int64) (int64, int64, bool) { return c.from, c.to, c.ok }
		data, read, _, err := d.LoadPart(context.Background(), 0, 0, alignedRoom(len(content)+2*directUnit), grow, part, c.first)
		from, to := c.from, c.to
		if !c.ok {
			from, to = 0, n
		}
		if err != nil || string(data[:HeadBytes]) != content[:HeadBytes] || string(data[from:to]) != content[from:to] || read > c.most {
			t.Errorf("%s: %d bytes were read, %v", c.name, read, err)
		}
	}
	never := func([]byte, int64) (int64, int64, bool) { t.Error("a small file has no parts"); return 0, 0, false }
	if data, _, _, err := d.LoadPart(context.Background(), 1, 0, nil, grow, never, 0); err != nil || string(data) != content[:HeadBytes+100] {
		t.Errorf("small: %d bytes, %v", len(data), err)
	}
	// A file that shrinks between the reads of its head and its part.
	shrink := func([]byte, int64) (int64, int64, bool) {
		os.Truncate(p.path("a.jpg"), 10_000)
		return 50_000, 60_000, true
	}
	if _, _, _, err := d.LoadPart(context.Background(), 0, 0, nil, grow, shrink, 0); !errors.Is(err, ErrChanged) {
		t.Errorf("shrunk: %v", err)
	}
}

// alignedRoom is memory like the workers', filled with garbage.
func alignedRoom(n int) []byte {
	p := bytes.Repeat([]byte{0xee}, n+directUnit)
	for i := range directUnit {
		if aligned(p[i:]) {
			return p[i : i : i+n]
		}
	}
	return p[:0]
}

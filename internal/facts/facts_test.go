package facts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// records are those of a file, as "kind:payload".
func records(data []byte) (all []string, err error) {
	err = Read(bytes.NewReader(data), int64(len(data)), func(kind byte, payload []byte, at int64) error {
		if !bytes.Equal(payload, data[at:][:len(payload)]) {
			return fmt.Errorf("%q is not at %d", payload, at)
		}
		all = append(all, fmt.Sprintf("%d:%s", kind, payload))
		return nil
	})
	return all, err
}

func written(payloads ...string) []byte {
	var out bytes.Buffer
	w := NewWriter(&out)
	for k, p := range payloads {
		w.Put(byte(k), []byte(p))
	}
	if err := w.Flush(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// TestDamage: wherever a file was cut off or a byte of it changed, Read returns the records before
// that place, and says that there should be more.
func TestDamage(t *testing.T) {
	payloads := []string{"first", "", "the third", string(bytes.Repeat([]byte("x"), 1000)), "last"}
	data := written(payloads...)
	all, err := records(data)
	if err != nil || len(all) != len(payloads) || all[2] != "2:the third" {
		t.Fatalf("%q, %v", all, err)
	}
	ends, at := map[int]int{len(mark): 0}, len(mark) // how many records end at an offset
	for k, p := range payloads {
		at += headSize + len(p)
		ends[at] = k + 1
	}
	complete := 0 // records before k
	for k := range data {
		if n, end := ends[k]; end {
			complete = n
		}
		cut, err := records(data[:k])
		if _, end := ends[k]; (err == nil) != end || err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut at %d: %v", k, err)
		}
		if diff := cmp.Diff(all[:complete], cut[:len(cut):len(cut)]); diff != "" && complete > 0 {
			t.Fatalf("cut at %d:\n%s", k, diff)
		}
		bad := bytes.Clone(data)
		bad[k] ^= 0x10
		got, err := records(bad)
		if !errors.Is(err, ErrDamaged) || len(got) != complete {
			t.Fatalf("byte %d changed: %d records, not %d; %v", k, len(got), complete, err)
		}
	}
}

// TestErrors: errors of a reader and of the caller are returned unchanged; a writer stops at its
// first error.
func TestErrors(t *testing.T) {
	data, mine := written("a", "b"), errors.New("mine")
	if err := Read(iotest.ErrReader(mine), 100, nil); err != mine {
		t.Error(err)
	}
	calls := 0
	err := Read(bytes.NewReader(data), int64(len(data)), func(byte, []byte, int64) error { calls++; return mine })
	if err != mine || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
	pr, pw := io.Pipe()
	pr.CloseWithError(mine)
	w := NewWriter(pw)
	w.Put(1, make([]byte, 1<<20))
	w.Put(2, nil)
	if err := w.Flush(); err != mine {
		t.Error(err)
	}
}

// FuzzRead: no content makes Read fail in another way, or allocate more than a few times the file.
func FuzzRead(f *testing.F) {
	f.Add(written("a", "bc", ""))
	f.Add([]byte(mark + "\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := records(data); err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
	})
}

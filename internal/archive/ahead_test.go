package archive

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batchfs/batchfs/internal/testkit"
)

// tracedReader records what is read.
type tracedReader struct {
	*bytes.Reader
	mu    sync.Mutex
	reads []Span
}

func (r *tracedReader) ReadAt(p []byte, off int64) (int, error) {
	r.mu.Lock()
	r.reads = append(r.reads, Span{off, off + int64(len(p))})
	r.mu.Unlock()
	return r.Reader.ReadAt(p, off)
}

// scanAhead is Scan with Seen, in blocks that are larger than the archive.
func scanAhead(t *testing.T, tar []byte, ahead []Span) (c *Contents, seen []string, reads []Span, unfit int) {
	t.Helper()
	r := &tracedReader{Reader: bytes.NewReader(tar)}
	held := int64(0)
	c, err := Scan(t.Context(), "x.tar", r, int64(len(tar)), Options{
		Block: 1 << 20, Ahead: ahead, Unfit: func() { unfit++ },
		Memory: func(n int64) error { held += n; return nil },
		Seen:   func(at Place, data []byte) { seen = append(seen, fmt.Sprintf("%d %.8q", at.Offset, data)) },
	})
	testkit.Must(t, err)
	if held > 1<<20+int64(len(tar)) || held < 0 {
		t.Errorf("%d bytes were held", held)
	}
	return c, seen, r.reads, unfit
}

// photos makes a WebDataset of n samples whose images have size bytes, with its index.
func photos(t *testing.T, n, size int) (tar []byte, idx string) {
	var files []string
	idx = fmt.Sprintf("v1.2 %d\n", n)
	at := 512
	for i := range n {
		image := strings.Repeat(string(rune('a'+i%26)), size+i)
		files = append(files, fmt.Sprintf("%04d.jpg", i), image, fmt.Sprintf("%04d.cls", i), fmt.Sprint(i))
		label := at + (size+i+511)/512*512 + 512
		idx += fmt.Sprintf("jpg %d %d %04d.jpg cls %d %d %04d.cls\n", at, size+i, i, label, len(fmt.Sprint(i)), i)
		at = label + 1024
	}
	return tarOf(t, files...), idx
}

// TestReadsWhatDALISays: with DALI's index, only headers, labels and beginnings of images are read,
// each once.
func TestReadsWhatDALISays(t *testing.T) {
	tar, idx := photos(t, 40, 30_000)
	spans, err := ReadDALI(strings.NewReader(idx), int64(len(tar)), 100, 1000, 50_000)
	if err != nil || len(spans) != 41 {
		t.Fatalf("%d spans, %v", len(spans), err)
	}
	want, _, _, _ := scanAhead(t, tar, nil)
	got, seen, reads, unfit := scanAhead(t, tar, spans)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	sum := int64(0)
	for _, r := range reads {
		sum += r.To - r.From
	}
	if len(reads) != len(spans) || sum > int64(len(tar)/5) || unfit > 0 {
		t.Errorf("%d bytes of %d in %d reads, unfit %d", sum, len(tar), len(reads), unfit)
	}
	if len(seen) != 40 || !strings.Contains(seen[1], "bbbbbbbb") {
		t.Errorf("%d samples were seen: %q", len(seen), seen)
	}
	if spans, err := ReadDALI(strings.NewReader(idx), int64(len(tar)), 100, 1<<20, 300_000); err != nil || len(spans) != 5 {
		t.Errorf("%d spans that are near one another, %v", len(spans), err)
	}
	if spans, err := ReadDALI(bytes.NewReader(read(t, "wds-two.idx")), int64(len(read(t, "wds-two.tar"))), 1<<20, 0, 0); err != nil || len(spans) == 0 {
		t.Errorf("an index that wds2idx has made: %v, %v", spans, err)
	}
}

// TestOldIndex: an index of another tar changes nothing, and is given up.
func TestOldIndex(t *testing.T) {
	tar, _ := photos(t, 40, 30_000)
	_, idx := photos(t, 25, 45_700)
	spans, err := ReadDALI(strings.NewReader(idx), int64(len(tar)), 100, 1000, 50_000)
	testkit.Must(t, err)
	want, _, _, _ := scanAhead(t, tar, nil)
	got, _, _, unfit := scanAhead(t, tar, spans)
	if diff := cmp.Diff(want, got); diff != "" || unfit != 1 {
		t.Errorf("unfit %d:\n%s", unfit, diff)
	}
}

// TestAnythingAhead: what is read ahead does not affect what is found.
func TestAnythingAhead(t *testing.T) {
	tar, _ := photos(t, 20, 3000)
	want, _, _, _ := scanAhead(t, tar, nil)
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var spans []Span
		for at := int64(0); ; {
			from := at + random.Int64N(1+random.Int64N(5000))
			to := from + random.Int64N(1+random.Int64N(20_000))
			if to > int64(len(tar)) {
				break
			}
			spans = append(spans, Span{from, to})
			at = from + random.Int64N(1+to-from)
		}
		got, _, _, _ := scanAhead(t, tar, spans)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d, %v:\n%s", seed, spans, diff)
		}
	}
}

// A slowReader takes as long to answer as a store.
type slowReader struct{ tracedReader }

const answerTime = 100 * time.Millisecond

func (r *slowReader) ReadAt(p []byte, off int64) (int, error) {
	time.Sleep(answerTime)
	return r.tracedReader.ReadAt(p, off)
}

// TestReadsBlocksAhead: reading an archive from front to back takes the time of one read for
// several blocks. It reads about every byte once, within the available memory.
func TestReadsBlocksAhead(t *testing.T) {
	const block, room = 64 << 10, 8 * 64 << 10
	tar, _ := photos(t, 200, 30_000)
	want, _, _, _ := scanAhead(t, tar, nil)
	synctest.Test(t, func(t *testing.T) {
		r := &slowReader{tracedReader{Reader: bytes.NewReader(tar)}}
		held, began := int64(0), time.Now()
		got, err := Scan(t.Context(), "x.tar", r, int64(len(tar)), Options{Block: block, Room: room, Memory: func(n int64) error {
			held += n
			return nil
		}})
		testkit.Must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		sum := int64(0)
		for _, s := range r.reads {
			sum += s.To - s.From
		}
		if sum > int64(len(tar))*108/100 {
			t.Errorf("%d bytes of %d were read", sum, len(tar))
		}
		if took := time.Since(began) / answerTime; int(took) > len(r.reads)/5 {
			t.Errorf("%d reads took the time of %d", len(r.reads), took)
		}
		if held > block+room {
			t.Errorf("%d bytes were held", held)
		}
	})
}

// TestAnyBlocksAhead: the sizes of files and blocks do not affect what is found, and a failing read
// ends the scan.
func TestAnyBlocksAhead(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		var files []string
		for i := range 60 {
			files = append(files, fmt.Sprintf("%04d.jpg", i), strings.Repeat("x", random.IntN(1+random.IntN(100_000))),
				fmt.Sprintf("%04d.cls", i), strings.Repeat(" ", random.IntN(3000))+"1")
		}
		tar := tarOf(t, files...)
		want, _, _, _ := scanAhead(t, tar, nil)
		o := Options{Block: 9000 + random.IntN(100_000), Room: random.Int64N(2 << 20)}
		got, err := Scan(t.Context(), "x.tar", bytes.NewReader(tar), int64(len(tar)), o)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("seed %d, %v: %v\n%s", seed, o, err, diff)
		}
		broken := failing{bytes.NewReader(tar), random.Int64N(int64(len(tar) - 1<<10)), errors.New("broken")}
		if _, err := Scan(t.Context(), "x.tar", broken, int64(len(tar)), o); !errors.Is(err, broken.err) || errors.Is(err, ErrBad) {
			t.Fatalf("seed %d, broken at %d: %v", seed, broken.from, err)
		}
	}
}

// FuzzReadDALI: the spans from any index are within the tar and in order.
func FuzzReadDALI(f *testing.F) {
	for _, text := range []string{"", "v1.2 1\njpg 512 10 a.jpg cls 1536 1 a.cls\n", "v1.1 1\njpg 512 10 cls 1536 1\n", "v1.0 1\n", "v1.2 1\njpg 512 10\n",
		"v1.2 1\njpg -1 10 a\n", "v1.2 1\njpg 9223372036854775807 9223372036854775807 a\n", "v1.2 2\njpg 1536 1 a\njpg 512 1 b\n"} {
		f.Add(text, int64(10_240), int64(100), int64(10), int64(1000))
	}
	f.Fuzz(func(t *testing.T, text string, size, head, near, most int64) {
		spans, err := ReadDALI(strings.NewReader(text), max(0, size), max(0, head), near, most)
		if err != nil {
			return
		}
		for k, s := range spans {
			if s.From < 0 || s.To < s.From || s.To > max(0, size) || k > 0 && s.From < spans[k-1].From {
				t.Errorf("%v of %d", spans, size)
			}
		}
	})
}

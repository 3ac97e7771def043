package dataset

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/batchfs/batchfs/internal/testkit"
)

// TestParquetWithoutDictionaries: such a file reads the same as a CSV with the same rows. Nothing
// kept shares a page's memory, which the next page reuses.
func TestParquetWithoutDictionaries(t *testing.T) {
	type record struct {
		Path   string `parquet:"path,plain"`
		Label  string `parquet:"label,plain"`
		Height int32  `parquet:"height,plain"`
		Width  int32  `parquet:"width,plain"`
		Format string `parquet:"format,plain"`
	}
	p := newPlace(t)
	rows := make([]record, 40_000)
	var text strings.Builder
	text.WriteString("path,label,height,width,format\n")
	formats := []string{"jpeg", "png", "bmp", "pnm", "webp", "PNG", "jpg"}
	for i := range rows {
		rows[i] = record{fmt.Sprintf("images/%06d", i), fmt.Sprintf("class %03d", i%500), int32(i%100 + 1), int32(i%77 + 1), formats[i/5000%len(formats)]}
		r := rows[i]
		fmt.Fprintf(&text, "%s,%s,%d,%d,%s\n", r.Path, r.Label, r.Height, r.Width, r.Format)
	}
	p.write("m.csv", text.String())
	for _, c := range []parquet.WriterOption{parquet.Compression(&parquet.Uncompressed), parquet.Compression(&parquet.Snappy)} {
		err := parquet.WriteFile(p.path("m.parquet"), rows, c, parquet.PageBufferSize(4096), parquet.MaxRowsPerRowGroup(7000))
		testkit.Must(t, err)
		want, got := p.open("m.csv"), p.open("m.parquet")
		runtime.GC()
		if diff := cmp.Diff(describe(want)[2:], describe(got)[2:]); diff != "" || want.Digest != got.Digest {
			t.Errorf("formats %v; csv - parquet +:\n%.2000s", got.Report.Formats, diff)
		}
		equal(t, want.Classes, got.Classes, "classes")
	}
}

// TestQuoteLeftOpen: an unclosed quote in a CSV is detected without reading the whole file into
// memory.
func TestQuoteLeftOpen(t *testing.T) {
	const size = 1 << 30
	for name, begin := range map[string]string{
		"in the header":   "path,\"la",
		"in a row":        "path,label\na.jpg,\"x\n\"\nb.jpg,\"cat",
		"a line for ever": "path,label\na.jpg,",
	} {
		p := newPlace(t)
		p.images("a.jpg")
		p.write("m.csv", begin)
		if err := os.Truncate(p.path("m.csv"), size); err != nil { // the rest is a hole and takes no space
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := p.tryOpen("m.csv")
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "quote may be left open") {
			t.Errorf("%s: %v", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
			t.Errorf("%s: %d MiB were allocated", name, n>>20)
		}
	}
}

// TestLongCSV: the bound applies to the record, not to the file.
func TestLongCSV(t *testing.T) {
	p := newPlace(t)
	p.images("a.jpg")
	long := strings.Repeat("x\n", maxLine/2-100)
	p.write("m.csv", "path,comment\na.jpg,\""+long+"\"\na.jpg,\""+long+"\"\na.jpg,\n")
	if d := p.open("m.csv"); d.Len() != 3 {
		t.Errorf("%d rows", d.Len())
	}
}

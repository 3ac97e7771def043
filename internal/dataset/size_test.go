package dataset

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

func imagenetPath(i int) string {
	class := 1_440_764 + i/1281*13
	return fmt.Sprintf("n%08d/n%08d_%d.JPEG", class, class, i%1281*17)
}

// imagenetTable is a table like that of ImageNet's training set.
func imagenetTable(rows int) *table {
	s := newTable(0, 0)
	jpeg, _ := formatNumber("jpeg")
	for i := range rows {
		s.appendRow(imagenetPath(i), int32(i/1281))
		s.row[i].height, s.row[i].width = int32(300+i*7919%400), int32(300+i*7907%400)
		s.row[i].orient, s.row[i].format = 1, jpeg
		s.row[i].id = Identity{Size: int64(100_000 + i*7919%30_011), ModTime: 1_700_000_000e9 + int64(i)*123_457}
	}
	s.clip()
	return s
}

func TestMemoryPerRow(t *testing.T) {
	const rows, limit = 100_000, 120
	s := imagenetTable(rows)
	if perRow := s.memory() / rows; perRow > limit {
		t.Errorf("%d bytes a row, more than %d", perRow, limit)
	}
	for i := range rows {
		s.addBad(i, "no image", false)
	}
	if perRow := s.memory() / rows; perRow > limit {
		t.Errorf("%d bytes a row, more than %d, when all are bad", perRow, limit)
	}
}

// TestTableIsWhatWasPutIn uses enough rows for many blocks.
func TestTableIsWhatWasPutIn(t *testing.T) {
	const rows = 100_000
	s := imagenetTable(rows)
	for i := 0; i < rows; i += 1000 {
		s.addBad(rows-1-i, fmt.Sprintf("reason %d", i), false)
	}
	src := &source{dir: "/r", manifest: "m.csv"}
	x := &index{table: s}
	x.derive()
	path := filepath.Join(t.TempDir(), "x.facts")
	testkit.Must(t, saveFacts(t.Context(), x, path, src, true))
	got, err := loadFacts(t.Context(), path, src)
	testkit.Must(t, err)
	if got.Digest != digest(got.table, nil) {
		t.Error("the digest of what was read is not that of what was written")
	}
	for i := range rows {
		want := imagenetPath(i)
		wantProblem := ""
		if k := rows - 1 - i; k%1000 == 0 {
			wantProblem = fmt.Sprintf("reason %d", k)
		}
		for _, table := range []*table{s, got.table} {
			if table.path(i) != want || table.row[i].label != int32(i/1281) || problemOf(table, i) != wantProblem {
				t.Fatalf("row %d: %q, label %d, problem %q", i, table.path(i), table.row[i].label, problemOf(table, i))
			}
		}
		if a, b := s.row[i], got.table.row[i]; a != b {
			t.Fatalf("row %d: %+v became %+v", i, a, b)
		}
	}
}

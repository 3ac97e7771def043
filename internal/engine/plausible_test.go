package engine

import (
	"encoding/binary"
	"hash/crc32"
	"path/filepath"
	"strings"
	"testing"
)

// TestHeaderBeyondItsFile: a tiny file that claims many pixels is indexed as corrupt and
// does not determine the size of its batch.
func TestHeaderBeyondItsFile(t *testing.T) {
	dir := testDir(t, 3)
	chunk := func(kind string, data []byte) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
		b = append(append(b, kind...), data...)
		return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
	}
	header := binary.BigEndian.AppendUint32(nil, 16000)
	header = append(binary.BigEndian.AppendUint32(header, 16000), 8, 2, 0, 0, 0)
	for name, padding := range map[string]int{"a.png": 0, "b.png": 100_000} { // probed whole, and in part
		file := "\x89PNG\r\n\x1a\n" + string(chunk("IHDR", header)) + string(chunk("IDAT", make([]byte, padding))) + string(chunk("IEND", nil))
		writeFile(t, filepath.Join(filepath.Dir(samplePath(dir, 0)), name), []byte(file))
	}
	e := start(t, dir, func(o *Options) { o.BatchSize = 5 })
	bad := 0
	for i := range e.catalog.Dataset.Len() {
		if strings.HasSuffix(e.catalog.Dataset.Path(i), ".png") && strings.Contains(e.catalog.Dataset.Problem(i), "corrupt") {
			bad++
		}
	}
	if s := e.catalog.Spec(Key{}); bad != 2 || s.H > 1000 || s.W > 1000 {
		t.Errorf("%d bad; the batch is %dx%d", bad, s.H, s.W)
	}
}

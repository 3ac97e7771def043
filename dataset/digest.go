package dataset

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// digestVersion is hashed first. Change it whenever the hashed content changes.
const digestVersion = "batchfs dataset 1\n"

// digest hashes everything a batch can depend on: the classes, then each sample's path, label,
// pixel size, orientation, format and byte size (-1: unknown), in order. Times are left out, so
// that a copy of a dataset has the same digest.
func digest(s *store, classes []string) string {
	h := sha256.New()
	w := bufio.NewWriterSize(h, 64<<10)
	w.WriteString(digestVersion)
	le := binary.LittleEndian
	var b []byte
	b = le.AppendUint64(b, uint64(len(classes)))
	for _, c := range classes {
		b = append(append(b, c...), 0)
	}
	b = le.AppendUint64(b, uint64(s.rows()))
	w.Write(b)
	for i := range s.rows() {
		size := int64(-1)
		if id, known := s.identity(i); known {
			size = id.Size
		}
		b = append(append(b[:0], s.path(i)...), 0)
		b = append(append(b, s.formatNames[s.formats[i]]...), 0)
		b = le.AppendUint32(b, uint32(s.labels[i]))
		b = le.AppendUint32(b, uint32(s.heights[i]))
		b = le.AppendUint32(b, uint32(s.widths[i]))
		b = append(b, s.orients[i])
		b = le.AppendUint64(b, uint64(size))
		w.Write(b)
	}
	w.Flush()
	return hex.EncodeToString(h.Sum(nil))
}

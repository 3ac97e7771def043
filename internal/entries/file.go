package entries

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/owned"
)

const (
	mark    = "bfspoint"
	version = 2

	headerSize = 36
	slotSize   = 16
	slots      = 16 // per bucket
	bucketSize = slots * slotSize
	perBucket  = 5 // samples per bucket of a new file, on average, so that hardly any bucket overflows
	crcSize    = 4 // of a record's CRC; its entry points follow
	pointSize  = 8

	// maxPoints is how many entry points a file can have: one for each row of the largest possible
	// JPEG. A file with more is treated like one that cannot have any.
	maxPoints = 1 << 13
	maxRecord = crcSize + maxPoints*pointSize

	// usualRecord is enough for the entry points of most photos.
	usualRecord = 1 << 10

	maxOffset = 1<<40 - 1
	tagMask   = 1<<42 - 1
)

var le = binary.LittleEndian

// header is the beginning of the file, as long as a bucket.
type header struct {
	rule    int32
	samples int64 // number of samples that the file was made for
	most    int64 // bytes of records before Renew removes useless ones
}

func newHeader(rule int32, samples int) header {
	return header{rule, int64(samples), 2 * usualRecord * int64(samples)}
}

func (h *header) bytes() []byte {
	b := append(make([]byte, 0, headerSize), mark...)
	b = le.AppendUint32(b, version)
	b = le.AppendUint32(b, uint32(h.rule))
	b = le.AppendUint64(b, uint64(h.samples))
	b = le.AppendUint64(b, uint64(h.most))
	return le.AppendUint32(b, CRC(b))
}

// readHeader reads the header of a file.
func readHeader(f io.ReaderAt, size int64) (h header, err error) {
	var b [headerSize]byte
	if _, err := f.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return h, err
	}
	h = header{int32(le.Uint32(b[12:])), int64(le.Uint64(b[16:])), int64(le.Uint64(b[24:]))}
	switch {
	case !bytes.Equal(h.bytes(), b[:]):
		return h, errors.New("it is damaged, or of another version")
	case h.rule < -1 || h.rule == 0:
		return h, fmt.Errorf("it has an unknown rule, %d", h.rule)
	case h.samples < 0 || h.samples > maxOffset/bucketSize || size < h.recordsAt():
		return h, errors.New("it is truncated")
	}
	return h, nil
}

func (h *header) buckets() int64 { return h.samples/perBucket + 1 }

func (h *header) recordsAt() int64 { return bucketSize * (1 + h.buckets()) }

// outgrown says whether the file must be made anew for a number of samples.
func (h *header) outgrown(size int64, samples int) bool {
	n := int64(samples)
	return n > slots/2*h.buckets() || n < h.samples/4 || size-h.recordsAt() > h.most
}

// write makes the file without records: its slots are a hole.
func (h *header) write(f *os.File) error {
	if _, err := f.WriteAt(h.bytes(), 0); err != nil {
		return err
	}
	return f.Truncate(h.recordsAt())
}

// openFile opens a file for reading and, if permitted, for writing.
func openFile(path string) (f *os.File, size int64, writable bool, err error) {
	f, size, err = owned.Open(path, os.O_RDWR)
	if writable = err == nil; errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		f, size, err = owned.Open(path, os.O_RDONLY)
	}
	return f, size, writable, err
}

// A File identifies a version of a file, which entry points belong to.
type File struct {
	Path          string
	Size, ModTime int64
}

// hashOf is the same on every machine.
func hashOf(path string) uint64 { return xxhash.Sum64String(path) }

// factsSize is how many bytes of a checksummed text precede the record.
const factsSize = 20

// seal returns the checksum of a slot. text has room for factsSize bytes, followed by the record;
// seal writes the other facts into it.
func seal(text []byte, rule int32, f File) ([]byte, uint32) {
	le.PutUint64(text[0:], uint64(f.Size))
	le.PutUint64(text[8:], uint64(f.ModTime))
	le.PutUint32(text[16:], uint32(rule))
	text = append(text, f.Path...)
	return text, CRC(text)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC is the checksum that this package uses for everything.
func CRC(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

package entries

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/owned"
)

const (
	mark    = "bfspoint"
	version = 1

	headerSize = 64
	rowSize    = 16
	pointSize  = 8

	// MaxPoints is how many entry points a file can have here: one for each row of the largest
	// possible JPEG. A file with more is treated as one that can have none.
	MaxPoints = 1 << 13

	maxOffset = 1<<40 - 1
)

var le = binary.LittleEndian

// An Index is what the row numbers of a file belong to.
type Index struct {
	Rows int
	Key  [32]byte
}

// header is the beginning of the file.
type header struct {
	rule int32
	Index
}

func (h *header) append(b []byte) []byte {
	b = append(b, mark...)
	b = le.AppendUint32(b, version)
	b = le.AppendUint32(b, uint32(h.rule))
	b = le.AppendUint64(b, uint64(h.Rows))
	b = append(b, h.Key[:]...)
	return append(le.AppendUint32(b, CRC(b)), 0, 0, 0, 0)
}

// readHeader reads the header of a file that should belong to an index.
func readHeader(f io.ReaderAt, size int64, x Index) (rule int32, err error) {
	var b [headerSize]byte
	if _, err := f.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return 0, err
	}
	h := header{int32(le.Uint32(b[12:])), x}
	switch {
	case string(h.append(nil)) != string(b[:]):
		return 0, errors.New("it is damaged, or belongs to another index")
	case h.rule < -1 || h.rule == 0:
		return 0, fmt.Errorf("it has an unknown rule, %d", h.rule)
	case size < h.pointsAt():
		return 0, errors.New("it is truncated")
	}
	return h.rule, nil
}

func (h *header) pointsAt() int64 { return rowAt(h.Rows) }

func rowAt(row int) int64 { return headerSize + int64(row)*rowSize }

// write makes the file without any entry points: its rows are a hole.
func (h *header) write(f *os.File) error {
	if _, err := f.Write(h.append(nil)); err != nil {
		return err
	}
	return f.Truncate(h.pointsAt())
}

// openFile opens a file for reading and, if it may be, for writing.
func openFile(path string) (f *os.File, size int64, writable bool, err error) {
	f, size, err = owned.Open(path, os.O_RDWR)
	if writable = err == nil; errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		f, size, err = owned.Open(path, os.O_RDONLY)
	}
	return f, size, writable, err
}

// A row says where a sample's entry points are, and what they are of.
type row struct {
	offset     int64
	count      int
	crc, check uint32
}

func (r row) append(b []byte) []byte {
	b = le.AppendUint32(b, uint32(r.offset))
	b = append(b, byte(r.offset>>32), byte(r.count), byte(r.count>>8), byte(r.count>>16))
	return le.AppendUint32(le.AppendUint32(b, r.crc), r.check)
}

func rowOf(b []byte) row {
	return row{
		offset: int64(le.Uint32(b)) | int64(b[4])<<32, count: int(le.Uint32(b[4:]) >> 8),
		crc: le.Uint32(b[8:]), check: le.Uint32(b[12:]),
	}
}

func (r row) known() bool { return r != row{} && r.count <= MaxPoints }

// A File is what the entry points of a row are of.
type File struct {
	Path          string
	Size, ModTime int64
}

// factsSize is how much of a checksummed text comes before the entry points.
const factsSize = 24

// seal returns the checksum of a row. text has factsSize bytes of room and then the entry points;
// the rest of the row's facts are written into it.
func seal(text []byte, rule int32, crc uint32, f File) ([]byte, uint32) {
	le.PutUint64(text[0:], uint64(f.Size))
	le.PutUint64(text[8:], uint64(f.ModTime))
	le.PutUint32(text[16:], uint32(rule))
	le.PutUint32(text[20:], crc)
	text = append(text, f.Path...)
	return text, CRC(text)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC is the checksum that is used for everything here.
func CRC(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

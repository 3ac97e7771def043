package tier

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
)

// ExtentBytes is the most that one extent holds.
const ExtentBytes = 8 << 20

const (
	unit       = 4096 // of direct reads and writes
	chunkBytes = 16 << 10
	mark       = "batchfs extent 2\n"
	crcsAt     = 80 // in the header
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A key names an extent: a piece of an object, which gives the file its name, and the object's
// version.
type key struct {
	piece, version [16]byte
}

// newKey returns the key of a piece of an object, counted from 0. The object's name and version are
// any texts that no other version has together.
func newKey(object, version string, piece int64) key {
	p := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte(object), uint64(piece)))
	v := sha256.Sum256([]byte(version))
	return key{[16]byte(p[:16]), [16]byte(v[:16])}
}

func (k key) name() string {
	s := hex.EncodeToString(k.piece[:])
	return s[:2] + "/" + s[2:]
}

var (
	errDamaged = errors.New("extent is damaged")
	errVersion = errors.New("extent is of another version")
)

// fileBytes is the size of an extent's file, for n bytes.
func fileBytes(n int64) int64 { return unit + roundUp(n, unit) }

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// seal writes the header of a file that already has the extent's n bytes behind it.
func seal(file []byte, k key, n int) {
	clear(file[:unit])
	clear(file[unit+n:])
	copy(file, mark)
	copy(file[32:], k.piece[:])
	copy(file[48:], k.version[:])
	binary.LittleEndian.PutUint64(file[64:], uint64(n))
	data := file[unit:][:n]
	for at := crcsAt; len(data) > 0; at += 4 {
		size := min(chunkBytes, len(data))
		binary.LittleEndian.PutUint32(file[at:], crc32.Checksum(data[:size], castagnoli))
		data = data[size:]
	}
	binary.LittleEndian.PutUint32(file[unit-4:], crc32.Checksum(file[:unit-4], castagnoli))
}

// check returns the size of the extent that a header describes. The error is errVersion if the
// header is intact, but of another version.
func check(header []byte, k key, fileSize int64) (int64, error) {
	n := int64(binary.LittleEndian.Uint64(header[64:]))
	if crc32.Checksum(header[:unit-4], castagnoli) != binary.LittleEndian.Uint32(header[unit-4:]) ||
		!bytes.HasPrefix(header, []byte(mark)) || [16]byte(header[32:48]) != k.piece ||
		n < 1 || n > ExtentBytes || fileBytes(n) != fileSize {
		return 0, errDamaged
	}
	if [16]byte(header[48:64]) != k.version {
		return 0, errVersion
	}
	return n, nil
}

// checkChunks checks the bytes of an extent, starting at chunk first.
func checkChunks(header, data []byte, first int) error {
	for at := crcsAt + 4*first; len(data) > 0; at += 4 {
		size := min(chunkBytes, len(data))
		if crc32.Checksum(data[:size], castagnoli) != binary.LittleEndian.Uint32(header[at:]) {
			return errDamaged
		}
		data = data[size:]
	}
	return nil
}

package dataset

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
)

// An index carries a checksum of itself, so that damage is detected before any of its content
// is trusted. It is the CRC-32C of the file with the checksum's own digits set to zero, stored
// as a key-value pair in the Parquet footer.
const (
	checksumKey    = "batchfs.crc32c"
	checksumDigits = 8
	checksumZero   = "00000000"
)

// checksumMark is how the pair starts in the footer: the key, then in Thrift's compact encoding
// "next field, a string of 8 bytes". No other footer value contains these bytes, because
// control characters are escaped in all of them.
const checksumMark = checksumKey + "\x18\x08"

var (
	errFooter   = errors.New("no Parquet file, or it is cut short")
	errChecksum = errors.New("checksum does not match")
)

// footer returns the position and length of a Parquet file's footer.
func footer(r io.ReaderAt, size int64) (offset, length int64, err error) {
	var tail [8]byte
	if size < 12 {
		return 0, 0, errFooter
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return 0, 0, err
	}
	length = int64(binary.LittleEndian.Uint32(tail[:]))
	if string(tail[4:]) != "PAR1" || length > size-12 {
		return 0, 0, errFooter
	}
	return size - 8 - length, length, nil
}

// checksumOffset locates the checksum's digits.
func checksumOffset(r io.ReaderAt, size int64) (int64, error) {
	offset, length, err := footer(r, size)
	if err != nil {
		return 0, err
	}
	b := make([]byte, length)
	if _, err := r.ReadAt(b, offset); err != nil {
		return 0, err
	}
	k := bytes.LastIndex(b, []byte(checksumMark))
	if k < 0 || k+len(checksumMark)+checksumDigits > len(b) {
		return 0, errChecksum
	}
	return offset + int64(k+len(checksumMark)), nil
}

// checksum computes the digits for a file that stores them at offset.
func checksum(r io.ReaderAt, size, offset int64) ([]byte, error) {
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	after := offset + checksumDigits
	buf := make([]byte, 256<<10)
	for _, part := range []io.Reader{
		io.NewSectionReader(r, 0, offset),
		bytes.NewReader([]byte(checksumZero)),
		io.NewSectionReader(r, after, size-after),
	} {
		if _, err := io.CopyBuffer(h, part, buf); err != nil {
			return nil, err
		}
	}
	return hex.AppendEncode(nil, h.Sum(nil)), nil
}

func sealIndex(f interface {
	io.ReaderAt
	io.WriterAt
}, size int64) error {
	offset, err := checksumOffset(f, size)
	if err != nil {
		return err
	}
	digits, err := checksum(f, size, offset)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(digits, offset)
	return err
}

// verifyIndex checks a file against the checksum in it.
func verifyIndex(r io.ReaderAt, size int64) error {
	offset, err := checksumOffset(r, size)
	if err != nil {
		return err
	}
	var got [checksumDigits]byte
	if _, err := r.ReadAt(got[:], offset); err != nil {
		return err
	}
	want, err := checksum(r, size, offset)
	if err != nil {
		return err
	}
	if !bytes.Equal(got[:], want) {
		return errChecksum
	}
	return nil
}

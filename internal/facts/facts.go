// Package facts reads and writes files of facts that should be learned only once, such as the
// headers of images, or which samples an archive holds.
//
// # The file
//
// A file is a mark of eight bytes and then records. A record is
//
//	CRC-32C of everything that follows in it    4 bytes
//	length of the payload                       4 bytes
//	kind                                        1 byte
//	payload
//
// Numbers are little-endian. The caller defines the kinds and the payloads.
//
// # Nothing is ever changed
//
// Records are only appended, each is complete in itself, and a file has one writer. So nothing
// needs a lock, even on a network file system: several programs that learn about one dataset write
// several files, and a reader combines the facts in all of them. When a file with everything is
// complete, it replaces the others ([owned.Replace]).
//
// # Damage
//
// A writer may be killed at any byte, a disk may be full, and a crash may lose what was written,
// since nothing is synced. A checksum reveals each of these. [Read] ends at the first record that
// is not intact: earlier records are true, and everything in the others is learned again.
package facts

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

const (
	mark     = "bfsfact1"
	headSize = 9
)

// ErrDamaged means that only a part of a file could be used.
var ErrDamaged = errors.New("is damaged, or cut off")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Writer appends records to a file. After an error it does nothing more.
type Writer struct {
	out *bufio.Writer
	err error
}

// NewWriter begins a file.
func NewWriter(w io.Writer) *Writer {
	out := bufio.NewWriterSize(w, 256<<10)
	_, err := out.WriteString(mark)
	return &Writer{out, err}
}

// Put appends a record. The payload stays the caller's.
func (w *Writer) Put(kind byte, payload []byte) {
	if w.err != nil {
		return
	}
	var head [headSize]byte
	binary.LittleEndian.PutUint32(head[4:], uint32(len(payload)))
	head[8] = kind
	binary.LittleEndian.PutUint32(head[:], checksum(&head, payload))
	if _, w.err = w.out.Write(head[:]); w.err == nil {
		_, w.err = w.out.Write(payload)
	}
}

func checksum(head *[headSize]byte, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head[4:], castagnoli), castagnoli, payload)
}

// Flush writes buffered records. It returns the first error that occurred.
func (w *Writer) Flush() error {
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}

// Read calls use for each record of a file of size bytes, in order. If use returns an error, Read
// stops and returns it. A payload is valid only during the call; at is its offset in the file. The
// error is [ErrDamaged] if the rest of the file cannot be used. Read allocates at most size bytes,
// whatever the file claims.
func Read(r io.Reader, size int64, use func(kind byte, payload []byte, at int64) error) error {
	in := bufio.NewReaderSize(r, 256<<10)
	var head [headSize]byte
	if _, err := io.ReadFull(in, head[:len(mark)]); err != nil || string(head[:len(mark)]) != mark {
		return damaged(err)
	}
	left := size - int64(len(mark))
	var payload []byte
	for left > 0 {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return damaged(err)
		}
		n := int64(binary.LittleEndian.Uint32(head[4:]))
		if left -= headSize + n; left < 0 {
			return ErrDamaged
		}
		if int64(cap(payload)) < n {
			payload = make([]byte, n)
		}
		payload = payload[:n]
		if _, err := io.ReadFull(in, payload); err != nil {
			return damaged(err)
		}
		if checksum(&head, payload) != binary.LittleEndian.Uint32(head[:]) {
			return ErrDamaged
		}
		if err := use(head[8], payload, size-left-n); err != nil {
			return err
		}
	}
	return nil
}

// damaged is the error of a read that returned less than it should.
func damaged(err error) error {
	if err == nil || err == io.EOF || err == io.ErrUnexpectedEOF {
		return ErrDamaged
	}
	return err
}

package archive

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Coding is how stored bytes become a sample. The numbers are stored, so they must not change.
type Coding uint8

const (
	Plain   Coding = iota // the bytes are the sample
	Pixels                // 8-bit RGB, to which Unpack adds the header of a PPM
	Deflate               // as in zip
	Snappy                // this and the following are for Parquet's pages; zstd also for MDS
	Gzip
	Zstd
	LZ4 // the raw block format
	Brotli
)

// Place says where a sample is in an archive, and how it is stored.
type Place struct {
	Offset, Length int64  // the stored bytes
	From, Size     int64  // the sample, in the unpacked bytes
	Block          int64  // length of the unpacked bytes; 0 for Plain and Pixels
	CRC            uint32 // of the unpacked bytes; Sum says which kind
	Height, Width  uint16 // of Pixels
	Coding         Coding
	Sum            Sum
}

// maxBlock is the most bytes that unpacking may yield.
const maxBlock = 1 << 30

// ratio is about the most bytes that one stored byte can become. Compressed images come nowhere
// near.
var ratio = [...]int64{Deflate: 1032, Snappy: 32, Gzip: 1032, Zstd: 1 << 16, LZ4: 255, Brotli: 1 << 16}

// Within says whether the place is valid in an archive of size bytes. Call it again for a place
// that was stored where others may write.
func (p Place) Within(size int64) bool {
	switch {
	case p.Offset < 0 || p.Length < 0 || p.Offset > size-p.Length || p.From < 0 || p.Size < 0:
		return false
	case p.Coding == Plain:
		return p.From == 0 && p.Size == p.Length
	case p.Coding == Pixels:
		return p == placeOfPixels(p.Offset, p.Height, p.Width)
	}
	return p.Coding <= Brotli && p.Sum <= Castagnoli && p.Block <= maxBlock && p.Block <= 64<<10+ratio[p.Coding]*p.Length &&
		p.From <= p.Block-p.Size
}

// Packed says whether the sample is in a block that must be unpacked as a whole.
func (p Place) Packed() bool { return p.Coding > Pixels }

// Whole is the place of the whole unpacked block.
func (p Place) Whole() Place {
	p.From, p.Size = 0, p.Block
	return p
}

// Room is the capacity that Unpack needs, in bytes.
func (p Place) Room() int64 {
	if p.Coding == Plain || p.Coding == Pixels {
		return p.Size
	}
	return p.Block
}

func (p Place) header(dst []byte) []byte {
	dst = strconv.AppendUint(append(dst, "P6\n"...), uint64(p.Width), 10)
	dst = strconv.AppendUint(append(dst, ' '), uint64(p.Height), 10)
	return append(dst, "\n255\n"...)
}

// placeOfPixels is the place of height x width x 3 bytes of pixels.
func placeOfPixels(offset int64, height, width uint16) Place {
	p := Place{Offset: offset, Length: 3 * int64(height) * int64(width), Height: height, Width: width, Coding: Pixels}
	var room [32]byte
	p.Size = p.Length + int64(len(p.header(room[:0])))
	return p
}

// Unpack returns a sample's bytes, made from the stored ones. The result is in dst's memory, whose
// capacity must be at least Room; dst and stored stay the caller's. It may be called from several
// goroutines. All errors are ErrBad: the bytes are not those that were stored.
func (p Place) Unpack(dst, stored []byte) ([]byte, error) {
	if int64(len(stored)) != p.Length || !p.Within(math.MaxInt64) {
		return nil, fmt.Errorf("%w: %d bytes are not what is at this place", ErrBad, len(stored))
	}
	dst = dst[:0:p.Room()]
	switch p.Coding {
	case Plain:
		return append(dst, stored...), nil
	case Pixels:
		return append(p.header(dst), stored...), nil
	}
	dst = dst[:p.Block]
	if err := caught(func() error { return p.Coding.unpack(dst, stored) }); err != nil {
		return nil, fmt.Errorf("%w: a compressed block is damaged: %w", ErrBad, err)
	}
	if err := p.Check(dst); err != nil {
		return nil, err
	}
	return dst[p.From:][:p.Size], nil
}

// unpack fills dst completely, or fails.
func (c Coding) unpack(dst, stored []byte) error {
	var n int
	var err error
	switch c {
	case Snappy:
		if n, err = snappy.DecodedLen(stored); err == nil && n == len(dst) {
			_, err = snappy.Decode(dst, stored)
		}
	case Zstd:
		var out []byte
		out, err = zstdDecoder().DecodeAll(stored, dst[:0])
		n = len(out)
	case LZ4:
		n, err = lz4.UncompressBlock(stored, dst)
	case Deflate, Gzip, Brotli:
		s := streams[c].Get().(*stream)
		defer streams[c].Put(s)
		return s.fill(dst, stored)
	}
	if err == nil && n != len(dst) {
		err = fmt.Errorf("it has %d bytes, not %d", n, len(dst))
	}
	return err
}

// zstdDecoder serves all goroutines. It yields no more than fits into the given memory.
var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderConcurrency(0),
		zstd.WithDecoderMaxMemory(maxBlock))
	if err != nil {
		panic(err) // fails only for wrong options
	}
	return d
})

// A stream is a reusable decoder, with the reader of its input.
type stream struct {
	in      bytes.Reader
	decoder interface {
		io.Reader
		Reset(of io.Reader) error
	}
	past [1]byte
}

type inflater struct{ io.ReadCloser }

func (f inflater) Reset(of io.Reader) error { return f.ReadCloser.(flate.Resetter).Reset(of, nil) }

var streams = map[Coding]*sync.Pool{
	Deflate: {New: func() any { return &stream{decoder: inflater{flate.NewReader(&bytes.Reader{})}} }},
	Gzip:    {New: func() any { return &stream{decoder: &gzip.Reader{}} }},
	Brotli:  {New: func() any { return &stream{decoder: &brotli.Reader{}} }},
}

func (s *stream) fill(dst, stored []byte) error {
	s.in.Reset(stored)
	defer s.in.Reset(nil)
	if err := s.decoder.Reset(&s.in); err != nil {
		return err
	}
	if _, err := io.ReadFull(s.decoder, dst); err != nil {
		return err
	}
	switch n, err := io.ReadFull(s.decoder, s.past[:]); {
	case n > 0:
		return fmt.Errorf("it has more than %d bytes", len(dst))
	case err != io.EOF:
		return err
	}
	return nil
}

package decode

import (
	"encoding/binary"
	"hash/crc32"
)

// A packed image holds another image's pixels in a code that is decoded far faster. It has a
// header of 64 bytes, all numbers little-endian, a body that depends on its kind, and what Unpack
// needs besides to make the original file:
//
//	 0  4  "\xb5BFS"
//	 4  1  version
//	 5  1  kind
//	 6  1  EXIF orientation, 1 to 8
//	 7  1  format of the original, as in originals
//	 8  4  width as stored
//	12  4  height as stored
//	16  8  bytes of the body
//	24  8  bytes of the remainder; 0: the image was packed for memory
//	32  4  CRC-32C of the header, with these four bytes as zeros, and of the body up to its strips
//	36  4  CRC-32C of everything after the last strip
//	40 24  zeros
//	64     the body, then the remainder
//
// The strips of a body are what can be decoded alone (strips.go). Each has a checksum of its own,
// so that a crop can be read, and compared, without the rest of the file.
const (
	packedSignature = "\xb5BFS"
	packedVersion   = 2
	packedHead      = 64
	packedSum       = 32 // where the checksum of what precedes the strips is
	packedRest      = 36 // where that of what follows them is
	packedReserved  = 40

	// packedMost limits body and remainder, so that sums of sizes cannot overflow.
	packedMost = 1 << 40

	// packedSlack is the number of zeros at the end of a body, so that decoders may read that far
	// past the bytes they use.
	packedSlack = 80
)

// The kinds of body.
const (
	kindLossless     = 1 + iota
	kindCoefficients // of a JPEG, see bfs_tiers.h
	numKinds
)

// PackedExt is what the names of packed images end in.
const PackedExt = ".bfs"

// originals are the formats of originals by their number in the file, which never changes.
var originals = [...]Format{1: JPEG, 2: PNG, 3: BMP, 4: PNM, 5: WebP}

// packed is a packed image in parts, which share the memory of its file.
type packed struct {
	kind          uint8
	orientation   uint8
	original      Format
	width, height int
	body          []byte
	remainder     []byte
}

// packedKinds holds the decoder for each kind of body. A codec checks everything that it reads: the
// checksum may not have been computed.
type packedKinds [numKinds]func(k *codecState, dst Image, p packed, v view) error

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	noSum      [4]byte
)

// packedChecksum is the checksum of a header and the bytes after it up to the strips.
func packedChecksum(front []byte) uint32 {
	sum := crc32.Update(0, castagnoli, front[:packedSum])
	sum = crc32.Update(sum, castagnoli, noSum[:])
	return crc32.Update(sum, castagnoli, front[packedSum+4:])
}

func packedHeader(data []byte, complete bool) (Header, error) {
	p, err := readPacked(data, complete)
	if err != nil {
		return Header{}, err
	}
	le := binary.LittleEndian
	h := Header{Format: Packed, Width: p.width, Height: p.height, Orientation: p.orientation, original: p.original}
	h.least = packedHead + int64(le.Uint64(data[16:])+le.Uint64(data[24:]))
	h.Scratch = packedScratch(p.kind, h)
	return h, nil
}

// readPacked reads the header of a packed image. It sets body and remainder if both are complete.
func readPacked(data []byte, complete bool) (p packed, err error) {
	if len(data) > 4 && data[4] != packedVersion {
		return p, unsupported("a packed image of version %d; this program reads version %d", data[4], packedVersion)
	}
	if len(data) < packedHead {
		return p, endsEarly(complete)
	}
	le := binary.LittleEndian
	p = packed{kind: data[5], orientation: data[6], width: int(le.Uint32(data[8:])), height: int(le.Uint32(data[12:]))}
	if n := int(data[7]); n < len(originals) {
		p.original = originals[n]
	}
	body, remainder := le.Uint64(data[16:]), le.Uint64(data[24:])
	switch {
	case p.kind == 0 || p.kind >= numKinds:
		return p, unsupported("a packed image of kind %d", p.kind)
	case p.original == Unknown:
		return p, corrupt("it was packed from an unknown format")
	case (p.original == JPEG) != (p.kind == kindCoefficients):
		return p, corrupt("a body of kind %d for %s", p.kind, p.original)
	case p.orientation < 1 || p.orientation > 8:
		return p, corrupt("an orientation of %d", p.orientation)
	case body < packedSlack || body > packedMost || remainder > packedMost:
		return p, corrupt("a body of %d and a remainder of %d bytes", body, remainder)
	case [packedHead - packedReserved]byte(data[packedReserved:packedHead]) != [packedHead - packedReserved]byte{}:
		return p, corrupt("a header whose reserved bytes are not 0")
	}
	if err := checkSide(int64(p.width), int64(p.height)); err != nil {
		return p, err
	}
	if least := p.least(); int64(body) < least {
		return p, corrupt("%dx%d pixels need a body of %d bytes at the least, and it has %d", p.width, p.height, least, body)
	}
	if rest := data[packedHead:]; uint64(len(rest)) == body+remainder {
		p.body, p.remainder = rest[:body:body], rest[body:]
	}
	return p, nil
}

// least is the size of the smallest body that can hold the image: of lossless rows that are all 0,
// or of MCUs of the largest size.
func (p *packed) least() int64 {
	w, h := int64(p.width), int64(p.height)
	if p.kind == kindLossless {
		return h * (1 + (w+31)/32)
	}
	return (w + 31) / 32 * ((h + 31) / 32)
}

// openPacked returns the parts of a whole file, without comparing any checksum.
func openPacked(data []byte) (packed, error) {
	p, err := readPacked(data, true)
	if err == nil && p.body == nil {
		err = corrupt("its length is not what its header says")
	}
	return p, err
}

// verify compares the checksums of everything that decoding some rows of strips reads; for all
// rows, those of the whole file.
func (p *packed) verify(data []byte, s strips, first, end int) error {
	le := binary.LittleEndian
	rest := int64(len(p.body))
	ok := packedChecksum(data[:packedHead+s.start]) == le.Uint32(data[packedSum:])
	ok = ok && s.each(func(i int, from, to int64, sum []byte) bool {
		rest = to
		return to <= int64(len(p.body)) &&
			(i < first*s.across || i >= end*s.across || crc32.Checksum(p.body[from:to], castagnoli) == le.Uint32(sum))
	})
	if ok && end-first == s.down {
		ok = crc32.Checksum(data[packedHead+rest:], castagnoli) == le.Uint32(data[packedRest:])
	}
	if !ok {
		return corrupt("its checksum is wrong")
	}
	return nil
}

// verifyFor compares the checksums of everything that decoding a region reads.
func (p *packed) verifyFor(data []byte, r Region, scale int) error {
	s, ok := p.strips(p.body)
	if !ok {
		return endsEarly(true)
	}
	first, end := s.covering(r, scale)
	return p.verify(data, s, first, end)
}

// seal completes a packed image at the beginning of to, which already has the body, with
// packedSlack zeros at its end. It returns the total size.
func (p *packed) seal(to []byte, body int, remainder ...[]byte) int {
	le := binary.LittleEndian
	clear(to[:packedHead])
	copy(to, packedSignature)
	to[4], to[5], to[6] = packedVersion, p.kind, p.orientation
	for n, f := range originals {
		if f == p.original {
			to[7] = uint8(n)
		}
	}
	n := packedHead + body
	for _, part := range remainder {
		n += copy(to[n:], part)
	}
	le.PutUint32(to[8:], uint32(p.width))
	le.PutUint32(to[12:], uint32(p.height))
	le.PutUint64(to[16:], uint64(body))
	le.PutUint64(to[24:], uint64(n-packedHead-body))
	p.sum(to[:n], to[packedHead:][:body])
	return n
}

// sum computes the checksums of a file with this body.
func (p *packed) sum(file, body []byte) {
	le, rest := binary.LittleEndian, packedHead
	s, ok := p.strips(body)
	if !ok {
		return
	}
	s.each(func(_ int, from, to int64, sum []byte) bool {
		if to > int64(len(body)) {
			return false
		}
		le.PutUint32(sum, crc32.Checksum(body[from:to], castagnoli))
		rest = packedHead + int(to)
		return true
	})
	le.PutUint32(file[packedRest:], crc32.Checksum(file[rest:], castagnoli))
	le.PutUint32(file[packedSum:], packedChecksum(file[:packedHead+s.start]))
}

// packedCodec returns a codec that decodes packed images by kind.
func packedCodec(kinds packedKinds) codec {
	return func(k *codecState, dst Image, data []byte, v view) error {
		p, err := openPacked(data)
		if err == nil && !v.Verified {
			err = p.verifyFor(data, v.Region, v.Scale)
		}
		if err != nil {
			return err
		}
		return kinds[p.kind](k, dst, p, v)
	}
}

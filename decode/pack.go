package decode

import "bytes"

// Prepared is a region of a baseline JPEG, laid out for a decoder with many threads. bfs_packed.h
// has the structs that such a decoder reads.
type Prepared struct {
	Bytes  int64 // an upper bound of its size
	Work   int64 // bytes of memory that the decoder needs
	Blocks int64 // 8x8 blocks that the decoder makes for a component, at most
	Pixels int64 // where in that memory the region's pixels will be, as they are stored, without any gap

	view view
	bits int
}

// Pack plans packing a region of a JPEG, a whole file, at full size. Its data will be decoded in
// stretches of bits bits, at least 32. ok is false for images that such a decoder does not support:
// Decoder then decodes them, or says what is wrong.
func (o Options) Pack(data []byte, h Header, r Region, bits int) (p Prepared, ok bool) {
	if h.Format != JPEG || o.allows(h) != nil || !r.in(h.Width, h.Height) {
		return Prepared{}, false
	}
	h, err := check(data, h)
	if err != nil {
		return Prepared{}, false
	}
	return packedSize(data, view{Header: h, Region: r, Scale: 1, Color: o.Color}, bits)
}

// Ordinary reports whether a file is a whole JPEG of a kind that even hardware supports, and that
// all decoders interpret alike: gray or YCbCr, Huffman-coded in a single scan.
func Ordinary(data []byte) bool {
	if Sniff(data) != JPEG {
		return false
	}
	f, err := readJPEGFrame(data, true)
	rgb := f.adobe && f.transform == 0 || string(f.ids[:3]) == "RGB"
	return err == nil && !f.multiScan && !f.arithmetic && (f.components == 1 || f.components == 3 && !rgb) &&
		bytes.Contains(data[f.scan:], []byte{0xff, markEOI})
}

// Put packs the planned data into to, which has Bytes bytes aligned to 8. If ok is false, the JPEG
// is damaged or odd, or is not the planned one and needs more memory. The packed image is then one
// that the decoder reports as damaged, too.
func (p Prepared) Put(to, data []byte) (ok bool) { return pack(to, data, p) }

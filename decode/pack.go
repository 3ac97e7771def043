package decode

// Packed is a baseline JPEG prepared for a decoder of many threads, as the structs in bfs_packed.h
// have it: the part that this package's own decoder would do in order, and with the same verdict, is left to that decoder.
type Packed struct {
	Bytes  int64 // its size, an upper bound
	Work   int64 // of the decoder's memory
	Blocks int64 // of 8x8 samples that the decoder makes of a component, at most
	Pixels int64 // where in that memory the region's pixels will be, as they are stored, without any gap

	view View
	bits int
}

// Pack plans to pack a region of a JPEG, a whole file, at full size. Its data will be decoded in stretches
// of so many bits, at least 32. ok is false for whatever such a decoder does not decode: Decoder then
// decodes it, or says what is wrong.
func (o Options) Pack(data []byte, h Header, r Region, bits int) (p Packed, ok bool) {
	if h.Format != JPEG || o.allows(h) != nil || !r.in(h.Width, h.Height) {
		return Packed{}, false
	}
	h, err := check(data, h)
	if err != nil {
		return Packed{}, false
	}
	return packedSize(data, View{Header: h, Region: r, Scale: 1, Color: o.Color}, bits)
}

// Put packs the same data into to, memory of Bytes aligned to 8. If ok is false, the decoder will find
// that it is damaged, and it has to be decoded in another way.
func (p Packed) Put(to, data []byte) (ok bool) { return pack(to, data, p.view, p.bits) }

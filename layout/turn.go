package layout

import "encoding/binary"

// turnBlock is the number of pixels turned at a time for a general channel count: few enough for
// the block to stay in the first-level cache while each channel passes over it.
const turnBlock = 2048

// toNCHW writes the h x w pixels of src, c interleaved channels of one byte each,
// to dst as c planes. Both must hold at least h*w*c bytes and must not overlap.
func toNCHW(dst, src []byte, h, w, c int) {
	n := h * w
	switch dst, src = dst[:n*c], src[:n*c]; c {
	case 1:
		copy(dst, src)
	case 3:
		split3(dst[:n], dst[n:2*n], dst[2*n:], src)
	default:
		splitAny(dst, src, n, c)
	}
}

// toNHWC is the inverse of toNCHW: src holds c planes, dst receives pixels.
func toNHWC(dst, src []byte, h, w, c int) {
	n := h * w
	switch dst, src = dst[:n*c], src[:n*c]; c {
	case 1:
		copy(dst, src)
	case 3:
		join3(dst, src[:n], src[n:2*n], src[2*n:])
	default:
		joinAny(dst, src, n, c)
	}
}

// split3 handles eight pixels at a time: three words in, one word to each plane.
func split3(r, g, b, src []byte) {
	for len(src) >= 24 && len(r) >= 8 && len(g) >= 8 && len(b) >= 8 {
		x := binary.LittleEndian.Uint64(src)
		y := binary.LittleEndian.Uint64(src[8:])
		z := binary.LittleEndian.Uint64(src[16:])
		binary.LittleEndian.PutUint64(r, gather(x)|gather(y>>8)<<24|gather(z>>16)<<48)
		binary.LittleEndian.PutUint64(g, gather(x>>8)|gather(y>>16)<<24|gather(z)<<40)
		binary.LittleEndian.PutUint64(b, gather(x>>16)|gather(y)<<16|gather(z>>8)<<40)
		src, r, g, b = src[24:], r[8:], g[8:], b[8:]
	}
	for len(src) >= 3 && len(r) >= 1 && len(g) >= 1 && len(b) >= 1 {
		r[0], g[0], b[0] = src[0], src[1], src[2]
		src, r, g, b = src[3:], r[1:], g[1:], b[1:]
	}
}

// join3 is the inverse of split3.
func join3(dst, r, g, b []byte) {
	for len(dst) >= 24 && len(r) >= 8 && len(g) >= 8 && len(b) >= 8 {
		x := binary.LittleEndian.Uint64(r)
		y := binary.LittleEndian.Uint64(g)
		z := binary.LittleEndian.Uint64(b)
		binary.LittleEndian.PutUint64(dst, spread(x)|spread(y)<<8|spread(z)<<16)
		binary.LittleEndian.PutUint64(dst[8:], spread(x>>24)<<8|spread(y>>24)<<16|spread(z>>16))
		binary.LittleEndian.PutUint64(dst[16:], spread(x>>48)<<16|spread(y>>40)|spread(z>>40)<<8)
		dst, r, g, b = dst[24:], r[8:], g[8:], b[8:]
	}
	for len(dst) >= 3 && len(r) >= 1 && len(g) >= 1 && len(b) >= 1 {
		dst[0], dst[1], dst[2] = r[0], g[0], b[0]
		dst, r, g, b = dst[3:], r[1:], g[1:], b[1:]
	}
}

// gather moves bytes 0, 3 and 6 of v to bytes 0, 1 and 2 and drops the others. The product holds
// each byte at several places without overlap; the three wanted ones meet at the top.
func gather(v uint64) uint64 {
	return (v & 0x00ff0000ff0000ff) * (1<<40 | 1<<24 | 1<<8) >> 40
}

// spread moves bytes 0, 1 and 2 of v to bytes 0, 3 and 6.
func spread(v uint64) uint64 {
	return v&0xff | v&0xff00<<16 | v&0xff0000<<32
}

func splitAny(dst, src []byte, n, c int) {
	for from := 0; from < n; from += turnBlock {
		to := min(from+turnBlock, n)
		for k := range c {
			plane, i := dst[k*n+from:k*n+to], from*c+k
			for j := range plane {
				plane[j] = src[i]
				i += c
			}
		}
	}
}

func joinAny(dst, src []byte, n, c int) {
	for from := 0; from < n; from += turnBlock {
		to := min(from+turnBlock, n)
		for k := range c {
			i := from*c + k
			for _, v := range src[k*n+from : k*n+to] {
				dst[i] = v
				i += c
			}
		}
	}
}

//go:build !cgo

package decode

import "encoding/binary"

// swapBGR turns whole BGR pixels into RGB. It takes most of the time of reading most BMPs, so it
// handles four pixels at a time.
func swapBGR(to, from []byte) {
	from = from[:len(to)]
	for len(to) >= 12 {
		f, t := from[:12:12], to[:12:12]
		a, b, c := binary.LittleEndian.Uint32(f), binary.LittleEndian.Uint32(f[4:]), binary.LittleEndian.Uint32(f[8:])
		// Bytes B0 G0 R0 B1, G1 R1 B2 G2, R2 B3 G3 R3.
		binary.LittleEndian.PutUint32(t, a>>16&0xff|a&0xff00|a&0xff<<16|b<<16&0xff000000)
		binary.LittleEndian.PutUint32(t[4:], b&0xff|a>>16&0xff00|c<<16&0xff0000|b&0xff000000)
		binary.LittleEndian.PutUint32(t[8:], b>>16&0xff|c>>16&0xff00|c&0xff0000|c<<16&0xff000000)
		to, from = to[12:], from[12:]
	}
	for i := 0; i+3 <= len(to); i += 3 {
		to[i], to[i+1], to[i+2] = from[i+2], from[i+1], from[i]
	}
}

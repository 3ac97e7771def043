package layout

import "encoding/binary"

// Turn writes the tensor described by s from src, in s.Order, to dst in order to; it copies if
// the two are equal. Both hold at least s.Bytes() bytes and must not overlap.
func Turn(dst []byte, to Order, src []byte, s Spec) {
	all := int(s.Bytes())
	dst, src = dst[:all], src[:all]
	if to == s.Order || s.C == 1 {
		copy(dst, src)
		return
	}
	turn := TurnNHWC
	if to == NCHW {
		turn = TurnNCHW
	}
	for each := int(s.SampleBytes()); len(src) > 0; dst, src = dst[each:], src[each:] {
		turn(dst[:each], src[:each], s.H, s.W, s.C, s.DType.Size())
	}
}

// TurnNCHW is toNCHW for elements of size bytes: 1, 2 or 4.
func TurnNCHW(dst, src []byte, h, w, c, size int) {
	n := h * w
	dst, src = dst[:n*c*size], src[:n*c*size]
	switch {
	case c == 1:
		copy(dst, src)
	case c == 3 && nativeSplit3(dst, src, n, size):
	case size == 1:
		toNCHW(dst, src, h, w, c)
	default:
		turnAny(n, c, func(k, from, to int) {
			gatherChannel(dst[(k*n+from)*size:(k*n+to)*size], src[(from*c+k)*size:], c, size)
		})
	}
}

// TurnNHWC is the inverse of TurnNCHW.
func TurnNHWC(dst, src []byte, h, w, c, size int) {
	n := h * w
	dst, src = dst[:n*c*size], src[:n*c*size]
	switch {
	case c == 1:
		copy(dst, src)
	case c == 3 && nativeJoin3(dst, src, n, size):
	case size == 1:
		toNHWC(dst, src, h, w, c)
	default:
		turnAny(n, c, func(k, from, to int) {
			scatterChannel(dst[(from*c+k)*size:], src[(k*n+from)*size:(k*n+to)*size], c, size)
		})
	}
}

// turnAny calls turn for each channel of each block of pixels.
func turnAny(n, c int, turn func(k, from, to int)) {
	for from := 0; from < n; from += turnBlock {
		for k := range c {
			turn(k, from, min(from+turnBlock, n))
		}
	}
}

// gatherChannel fills plane with elements of 2 or 4 bytes that are c elements apart.
func gatherChannel(plane, src []byte, c, size int) {
	at := 0
	if size == 2 {
		for ; len(plane) >= 2; plane = plane[2:] {
			binary.NativeEndian.PutUint16(plane, binary.NativeEndian.Uint16(src[at:]))
			at += 2 * c
		}
		return
	}
	for ; len(plane) >= 4; plane = plane[4:] {
		binary.NativeEndian.PutUint32(plane, binary.NativeEndian.Uint32(src[at:]))
		at += 4 * c
	}
}

// scatterChannel is the inverse of gatherChannel.
func scatterChannel(dst, plane []byte, c, size int) {
	at := 0
	if size == 2 {
		for ; len(plane) >= 2; plane = plane[2:] {
			binary.NativeEndian.PutUint16(dst[at:], binary.NativeEndian.Uint16(plane))
			at += 2 * c
		}
		return
	}
	for ; len(plane) >= 4; plane = plane[4:] {
		binary.NativeEndian.PutUint32(dst[at:], binary.NativeEndian.Uint32(plane))
		at += 4 * c
	}
}

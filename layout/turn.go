package layout

import (
	"encoding/binary"

	"github.com/batchfs/batchfs/internal/kernel"
)

// Turn writes the tensor described by s from src, in s.Order, to dst in order to; it copies if
// the two are equal. Both hold at least s.Bytes() bytes and must not overlap.
func Turn(dst []byte, to Order, src []byte, s Spec, k kernel.Kernel) {
	all := int(s.Bytes())
	dst, src = dst[:all], src[:all]
	if to == s.Order || s.C == 1 {
		copy(dst, src)
		return
	}
	pixels, size := s.H*s.W, s.DType.Size()
	for each := int(s.SampleBytes()); len(src) > 0; dst, src = dst[each:], src[each:] {
		if s.C != 3 || !turn3(k, to, dst[:each], src[:each], pixels, size) {
			turnAny(to, dst[:each], src[:each], pixels, s.C, size)
		}
	}
}

// turnBlock is how many pixels are turned at a time: few enough for them to stay in the
// first-level cache while each channel passes over them.
const turnBlock = 2048

// turnAny turns n pixels of c elements.
func turnAny(to Order, dst, src []byte, n, c, size int) {
	for from := 0; from < n; from += turnBlock {
		some := min(turnBlock, n-from)
		for k := range c {
			planar, interleaved := (k*n+from)*size, (from*c+k)*size
			if to == NCHW {
				copyElements(dst[planar:], size, src[interleaved:], c*size, size, some)
			} else {
				copyElements(dst[interleaved:], c*size, src[planar:], size, size, some)
			}
		}
	}
}

// copyElements copies n elements; those of dst are there bytes apart, those of src here bytes.
func copyElements(dst []byte, there int, src []byte, here, size, n int) {
	switch size {
	case 1:
		for i := range n {
			dst[i*there] = src[i*here]
		}
	case 2:
		for i := range n {
			binary.NativeEndian.PutUint16(dst[i*there:], binary.NativeEndian.Uint16(src[i*here:]))
		}
	default:
		for i := range n {
			binary.NativeEndian.PutUint32(dst[i*there:], binary.NativeEndian.Uint32(src[i*here:]))
		}
	}
}

package layout

// Turn writes the tensor described by s from src, in s.Order, to dst in order to; it copies if
// the two are equal. Both hold at least s.Bytes() bytes and must not overlap.
func Turn(dst []byte, to Order, src []byte, s Spec, k Kernel) {
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

// turnAny turns n pixels of c elements.
func turnAny(to Order, dst, src []byte, n, c, size int) {
	for channel := range c {
		planar, interleaved := channel*n*size, channel*size
		for range n {
			if to == NCHW {
				store(dst[planar:], size, load(src[interleaved:], size))
			} else {
				store(dst[interleaved:], size, load(src[planar:], size))
			}
			planar += size
			interleaved += c * size
		}
	}
}

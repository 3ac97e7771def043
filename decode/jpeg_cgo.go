//go:build cgo

package decode

// #include "bfs_jpeg.h"
// #cgo noescape bfs_jpeg_decode
// #cgo nocallback bfs_jpeg_decode
import "C"

// jpeg decodes with libjpeg-turbo.
func (k *kept) jpeg(dst Image, data []byte, v View) error {
	if err := checkScans(data, v.Header); err != nil {
		return err
	}
	to, view := cView(dst, v)
	return k.result(C.bfs_jpeg_decode(&k.c, cBytes(data), C.size_t(len(data)), to, view), "libjpeg")
}

// jpegScratch estimates what libjpeg allocates: windows of rows for each component before and
// after upsampling and, if the image has several scans, all of its 16-bit coefficients.
func jpegScratch(f *jpegFrame) int64 {
	const fixed = 64 << 10 // tables, and the slack of libjpeg's pools
	n := int64(fixed)
	maxH, maxV := f.maxSampling()
	for i := range f.components {
		across, down := f.blocks(i)
		n += across * 8 * int64(f.v[i]) * 16
		n += int64(f.width+8*maxH) * int64(maxV)
		if f.multiScan {
			n += across * down * 128
		}
	}
	return n
}

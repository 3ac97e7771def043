package gen

import "fmt"

// appendPNM appends a binary PPM (3 channels) or PGM (1 channel) file to dst. A comment goes
// between the numbers, where some readers do not expect it.
func appendPNM(dst []byte, w, h, chans int, pix []byte, comment string) []byte {
	kind := "P6"
	if chans == 1 {
		kind = "P5"
	}
	if comment != "" {
		comment = "# " + comment + "\n"
	}
	dst = fmt.Appendf(dst, "%s\n%s%d %d\n255\n", kind, comment, w, h)
	return append(dst, pix...)
}

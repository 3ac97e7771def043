package decode

// Format is a kind of image file.
type Format uint8

// The formats that can be read. PNM stands for PPM and PGM, plain and raw.
const (
	Unknown Format = iota
	JPEG
	PNG
	BMP
	PNM
	WebP
	Packed // a packed image, see the package comment
	numFormats
)

// formats holds each format's name and the function that reads its header.
var formats = [numFormats]struct {
	name   string
	header func(data []byte, complete bool) (Header, error)
}{
	Unknown: {"unknown", nil},
	JPEG:    {"jpeg", jpegHeader},
	PNG:     {"png", pngHeader},
	BMP:     {"bmp", bmpHeader},
	PNM:     {"pnm", pnmHeader},
	WebP:    {"webp", webpHeader},
	Packed:  {"packed", packedHeader},
}

// String returns the format's lower-case name, as written to indexes and documents.
func (f Format) String() string {
	if f >= numFormats {
		f = Unknown
	}
	return formats[f].name
}

// ParseFormat is the inverse of String for the formats that can be read.
func ParseFormat(name string) (Format, bool) {
	for f := JPEG; f < numFormats; f++ {
		if f.String() == name {
			return f, true
		}
	}
	return Unknown, false
}

// Raw reports whether the format stores uncompressed pixels, so that decoding costs almost
// nothing compared to reading.
func (f Format) Raw() bool { return f == BMP || f == PNM }

// Sniff detects the format from the first bytes of a file; 12 are enough.
func Sniff(data []byte) Format {
	switch {
	case hasPrefix(data, "\xff\xd8"):
		return JPEG
	case hasPrefix(data, packedSignature):
		return Packed
	case hasPrefix(data, pngSignature):
		return PNG
	case hasPrefix(data, "BM"):
		return BMP
	case len(data) >= 12 && hasPrefix(data, "RIFF") && string(data[8:12]) == "WEBP":
		return WebP
	case isPNM(data):
		return PNM
	}
	return Unknown
}

func hasPrefix(data []byte, prefix string) bool {
	return len(data) >= len(prefix) && string(data[:len(prefix)]) == prefix
}

// Color is the kind of pixels to decode to.
type Color uint8

// The two kinds of pixels.
const (
	RGB Color = iota
	Gray
)

// Channels returns the bytes per pixel: 3 or 1.
func (c Color) Channels() int {
	if c == Gray {
		return 1
	}
	return 3
}

package dataset

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"
)

// CompareNames orders names in a dataset's directories the way Python orders the strings it
// decodes them to: by code point, with a byte that is not UTF-8 decoded as U+DC00 plus its
// value (surrogateescape). For valid UTF-8 this is byte order.
func CompareNames(a, b string) int {
	if utf8.ValidString(a) && utf8.ValidString(b) {
		return strings.Compare(a, b)
	}
	for a != "" && b != "" {
		ra, na := pythonRune(a)
		rb, nb := pythonRune(b)
		if ra != rb {
			return cmp.Compare(ra, rb)
		}
		a, b = a[na:], b[nb:]
	}
	return cmp.Compare(len(a), len(b))
}

func pythonRune(s string) (rune, int) {
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && n == 1 {
		return 0xDC00 + rune(s[0]), 1
	}
	return r, n
}

// PathBytes returns a path that is not UTF-8 in base64, and "" for any other path. JSON can
// hold only UTF-8: documents that name a file write "path" with U+FFFD for each invalid byte,
// and add this as "path_bytes" so that no two files look alike. They omit it if "path" is
// exact.
func PathBytes(path string) string {
	if utf8.ValidString(path) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(path))
}

// hidden says whether a name is skipped because of its leading dot.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// extension is a name's extension in lower case, without the dot; found is false if it has none.
func extension(name string) (ext string, found bool) {
	dot := strings.LastIndexByte(name, '.')
	return strings.ToLower(name[dot+1:]), dot >= 0
}

// isImage says whether a name has the extension of a supported format.
func isImage(name string) bool {
	ext, found := extension(name)
	return found && slices.Contains([]string{"jpg", "jpeg", "png", "ppm", "pgm", "bmp", "webp"}, ext)
}

// extensionKey names the kind of an ignored file for counting: its extension in lower case, "."
// for a hidden file, "" for no extension, "other" for anything but up to 8 letters and digits.
// The set stays printable whatever the names are.
func extensionKey(name string) string {
	ext, found := extension(name)
	strange := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') }
	switch {
	case hidden(name):
		return "."
	case !found:
		return ""
	case strings.HasPrefix(ext, "tfrecord"): // also .tfrecord-00000-of-01024
		return "tfrecord"
	case ext == "" || len(ext) > 8 || strings.ContainsFunc(ext, strange):
		return "other"
	}
	return ext
}

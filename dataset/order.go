package dataset

import (
	"cmp"
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// CompareNames orders names in a dataset's directories the way Python orders the strings it
// decodes them to: by code point, with a byte that is not UTF-8 decoded as U+DC00 plus its
// value (surrogateescape). For valid UTF-8 this is byte order.
func CompareNames(a, b string) int {
	p := 0
	for p < len(a) && p < len(b) && a[p] == b[p] {
		p++
	}
	switch {
	case p == len(a) && p == len(b):
		return 0
	case p > 0 && a[p-1] >= utf8.RuneSelf:
		return compareRunes(a, b)
	case p == len(a) || p == len(b):
		return cmp.Compare(len(a), len(b))
	case a[p] >= utf8.RuneSelf && b[p] >= utf8.RuneSelf:
		return compareRunes(a, b)
	}
	return cmp.Compare(a[p], b[p])
}

// compareRunes starts over from the front, because the bytes before the first difference may
// decode differently on each side.
func compareRunes(a, b string) int {
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

// isImage says whether a name has the extension of a supported format.
func isImage(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 || len(name)-dot > len(".jpeg") {
		return false
	}
	switch strings.ToLower(name[dot+1:]) {
	case "jpg", "jpeg", "png", "ppm", "pgm", "bmp", "webp":
		return true
	}
	return false
}

// extensionKey names the kind of an ignored file for counting: its extension in lower case, "."
// for a hidden file, "" for no extension, "other" for anything but up to 8 letters and digits.
// The set stays printable whatever the names are.
func extensionKey(name string) string {
	if hidden(name) {
		return "."
	}
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return ""
	}
	ext := strings.ToLower(name[dot+1:])
	if ext == "" || len(ext) > 8 {
		return "other"
	}
	for _, c := range []byte(ext) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return "other"
		}
	}
	return ext
}

package dataset

import (
	"cmp"
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// CompareNames is the order of names in a dataset's directories: that in which Python
// puts the strings it decodes them to, by code point, a byte that is no UTF-8 standing
// for U+DC00 plus its value (surrogateescape). For valid UTF-8 that is the order of
// the bytes.
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

// compareRunes starts over from the front: the bytes before the first
// difference may decode differently on either side.
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

// PathBytes returns the bytes of a path that is not UTF-8 in base64, "" for any other. JSON
// can hold only UTF-8: where a document names a file, "path" has U+FFFD for each byte that
// is none, and "path_bytes" beside it is this, so that no two files look alike. It is
// absent where "path" says all.
func PathBytes(path string) string {
	if utf8.ValidString(path) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(path))
}

// hidden says whether a name is skipped for its leading dot.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// isImage says whether a name ends like one of the formats that are read.
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

// extensionKey names the kind of an ignored file for a count by kind: its
// extension in lower case, "." for a hidden file, "" for none, "other" for what
// is no word. The set stays small and printable whatever the names are.
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

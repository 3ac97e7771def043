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

// A BadFile is a sample that cannot be read, and why, as documents name it.
type BadFile struct {
	Path   string `json:"path"`
	Bytes  string `json:"path_bytes,omitempty"` // its PathBytes
	ID     int    `json:"id"`
	Reason string `json:"reason"`
}

// NewBadFile makes a BadFile from a sample's path and number, and the reason.
func NewBadFile(path string, id int, reason string) BadFile {
	return BadFile{path, PathBytes(path), id, reason}
}

package layout

import (
	"strconv"
	"strings"
)

const batchPrefix = "batch-"

// BatchName is the name of batch i (from 0) without an extension: "batch-00017", with at least
// five digits.
func BatchName(i int) string { return string(appendBatch(nil, i)) }

// AppendName appends the file name of batch i in form f to dst. It allocates nothing if dst has
// enough room, since directories list hundreds of thousands of names.
func AppendName(dst []byte, i int, f Form) []byte {
	dst = append(appendBatch(dst, i), '.')
	return append(dst, f.Ext()...)
}

func appendBatch(dst []byte, i int) []byte {
	dst = append(dst, batchPrefix...)
	for limit := 10000; limit > 1 && i < limit; limit /= 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(i), 10)
}

// ParseBatchName parses a batch file's name. It accepts only the spelling that AppendName writes:
// a second name for the same file would be a second inode.
func ParseBatchName(name string) (batch int, form Form, ok bool) {
	rest, ok := strings.CutPrefix(name, batchPrefix)
	digits, ext, dot := strings.Cut(rest, ".")
	form, known := ParseForm(ext)
	batch, err := strconv.Atoi(digits)
	if !ok || !dot || !known || err != nil || batch < 0 {
		return 0, 0, false
	}
	var spelled [64]byte
	if string(AppendName(spelled[:0], batch, form)) != name {
		return 0, 0, false
	}
	return batch, form, true
}

package layout

import (
	"math"
	"strconv"
	"strings"
)

const (
	batchPrefix = "batch-"
	batchDigits = 5
)

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

// ParseBatchName parses a batch file's name. It accepts only the canonical spelling, the one
// that AppendName writes: a second name for the same file would be a second inode.
func ParseBatchName(name string) (batch int, form Form, ok bool) {
	rest, ok := strings.CutPrefix(name, batchPrefix)
	if !ok {
		return 0, 0, false
	}
	dot := strings.IndexByte(rest, '.')
	if dot < 0 {
		return 0, 0, false
	}
	batch, ok = parseIndex(rest[:dot])
	if !ok {
		return 0, 0, false
	}
	form, ok = ParseForm(rest[dot+1:])
	if !ok {
		return 0, 0, false
	}
	return batch, form, true
}

func parseIndex(digits string) (int, bool) {
	if len(digits) < batchDigits || len(digits) > batchDigits && digits[0] == '0' {
		return 0, false
	}
	n := 0
	for i := range len(digits) {
		d := int(digits[i]) - '0'
		if d < 0 || d > 9 || n > (math.MaxInt-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

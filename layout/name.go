package layout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const batchPrefix = "batch-"

// BatchName is the name of batch i (from 0) without an extension: "batch-00017", with at least
// five digits.
func BatchName(i int) string { return string(appendBatch(nil, i)) }

// Names are the names of a mount's arrays, by number. The extensions of array forms contain them.
// nil: the mount has no arrays.
type Names []string

const offsetsExt = ".offsets.npy"

// Ext is a form's extension, without the leading dot.
func (n Names) Ext(f Form) string {
	switch i := int(f-FirstArray) / 2; {
	case f < FirstArray:
		return forms[f]
	case !f.IsArray() || i >= len(n):
		return "unknown"
	case f == ArrayOffsets(i):
		return n[i] + offsetsExt
	default:
		return n[i] + ".npy"
	}
}

// Parse finds a form by its extension, written without the leading dot.
func (n Names) Parse(ext string) (Form, bool) {
	if f := slices.Index(forms[:], ext); f >= 0 {
		return Form(f), true
	}
	for i, name := range n {
		switch rest, ok := strings.CutPrefix(ext, name); {
		case ok && rest == ".npy":
			return ArrayForm(i), true
		case ok && rest == offsetsExt:
			return ArrayOffsets(i), true
		}
	}
	return 0, false
}

const (
	// maxArrayName keeps names of files far below what a file system allows.
	maxArrayName = 100
	letters      = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// Check returns an error if a name is not allowed for an array. All names of a mount must differ.
func (n Names) Check() error {
	if len(n) > MaxArrays {
		return fmt.Errorf("there are %d, of at most %d", len(n), MaxArrays)
	}
	for _, name := range n {
		odd := strings.Trim(name, letters+"0123456789_-") != ""
		taken := name == "images" || name == metadataKey || slices.ContainsFunc(forms[:], func(ext string) bool {
			return strings.HasPrefix(ext+".", name+".")
		})
		switch {
		case odd || name == "" || len(name) > maxArrayName:
			return fmt.Errorf("%.110q is no name of a file: "+
				"give the column one of at most %d letters, digits, _ and -", name, maxArrayName)
		case taken:
			return fmt.Errorf("batches have something else of the name %q: "+
				"give the column another one", name)
		}
	}
	return nil
}

// AppendName appends the file name of batch i in form f to dst. It allocates nothing if dst has
// enough room, since directories list hundreds of thousands of names.
func (n Names) AppendName(dst []byte, i int, f Form) []byte {
	dst = append(appendBatch(dst, i), '.')
	return append(dst, n.Ext(f)...)
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
func (n Names) ParseBatchName(name string) (batch int, form Form, ok bool) {
	rest, ok := strings.CutPrefix(name, batchPrefix)
	digits, ext, dot := strings.Cut(rest, ".")
	form, known := n.Parse(ext)
	batch, err := strconv.Atoi(digits)
	if !ok || !dot || !known || err != nil || batch < 0 {
		return 0, 0, false
	}
	var spelled [64]byte
	if string(n.AppendName(spelled[:0], batch, form)) != name {
		return 0, 0, false
	}
	return batch, form, true
}

package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// An NPYHeader describes the array in a .npy file.
type NPYHeader struct {
	Type  ArrayType
	Shape []int
	Bytes int64 // of the header; the elements follow
}

const (
	maxDims      = 32
	maxNPYHeader = 64 << 10 // bytes; NumPy writes 128
)

// errNPY is the error for a header that no program writes.
var errNPY = errors.New("it is no .npy file, or a damaged one")

// ReadNPYHeader reads the header of a .npy file of size bytes that begins with head. The error is
// io.ErrUnexpectedEOF if it needs more of the file. Otherwise, the error says why the file cannot
// be used, and how to save it instead.
func ReadNPYHeader(head []byte, size int64) (h NPYHeader, err error) {
	if len(head) < 12 && int64(len(head)) < size {
		return h, io.ErrUnexpectedEOF
	}
	magic := npyMagic[:len(npyMagic)-2]
	if len(head) < 12 || !strings.HasPrefix(string(head[:8]), magic) {
		return h, errNPY
	}
	if version := head[6]; version < 1 || version > 3 || head[7] != 0 {
		return h, errNPY
	}
	from, length := int64(10), int64(binary.LittleEndian.Uint16(head[8:]))
	if head[6] > 1 {
		from, length = 12, int64(binary.LittleEndian.Uint32(head[8:]))
	}
	h.Bytes = from + length
	switch {
	case length > maxNPYHeader:
		return h, fmt.Errorf("its header has %d bytes, more than %d", length, maxNPYHeader)
	case h.Bytes > size:
		return h, errNPY
	case h.Bytes > int64(len(head)):
		return h, io.ErrUnexpectedEOF
	}
	p := literal{text: string(head[from:h.Bytes])}
	p.header(&h)
	if p.err != nil {
		return h, p.err
	}
	n := uint64(h.Type.size)
	if len(h.Shape) > 0 {
		n = product(append(h.Shape, h.Type.size)...)
	}
	if n > maxTensor {
		return h, fmt.Errorf("an array of shape %s is %w", shapeText(h.Shape), errTooBig)
	}
	x := newTensor(NPY, "", h.Type, h.Shape...)
	if want := uint64(h.Bytes) + uint64(x.bytes()); want != uint64(size) {
		return h, fmt.Errorf("it has %d bytes, and its header says %d", size, want)
	}
	return h, nil
}

func shapeText(shape []int) string { return "[" + string(appendInts(nil, ", ", shape...)) + "]" }

// literal reads a Python dictionary, as .npy files have it. It keeps the first error.
type literal struct {
	text string
	err  error
}

func (p *literal) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	p.text = ""
}

// takes skips a token if it is the next one.
func (p *literal) takes(token string) (ok bool) {
	p.text, ok = strings.CutPrefix(strings.TrimLeft(p.text, " \t\r\n"), token)
	return ok
}

func (p *literal) expect(token string) {
	if !p.takes(token) && p.err == nil {
		p.err, p.text = errNPY, ""
	}
}

// quoted reads a string without escapes.
func (p *literal) quoted() (s string) {
	quote := `'`
	if !p.takes(quote) {
		quote = `"`
		p.expect(quote)
	}
	s, rest, ended := strings.Cut(p.text, quote)
	if p.text = rest; !ended || strings.ContainsRune(s, '\\') {
		p.expect("no end")
	}
	return s
}

func (p *literal) header(h *NPYHeader) {
	seen, fortran := map[string]bool{}, false
	p.expect("{")
	for p.err == nil && !p.takes("}") {
		key := p.quoted()
		p.expect(":")
		switch {
		case p.err != nil || seen[key]:
			p.expect("another key")
		case key == "descr":
			h.Type = p.descr()
		case key == "fortran_order":
			if fortran = p.takes("True"); !fortran {
				p.expect("False")
			}
		case key == "shape":
			h.Shape = p.shape()
		default:
			p.expect("a known key")
		}
		seen[key] = true
		if !p.takes(",") {
			p.expect("}")
			break
		}
	}
	if len(seen) != 3 || strings.TrimSpace(p.text) != "" {
		p.expect("three keys and no more")
	}
	if fortran && len(h.Shape) > 1 {
		p.fail("its elements are in Fortran order: save them in C order, as " +
			"numpy.save(FILE, numpy.ascontiguousarray(a))")
	}
}

func (p *literal) descr() (t ArrayType) {
	if p.takes("[") || p.takes("(") {
		p.fail("it has fields: save each of them as an array of its own, as " +
			"numpy.save(FILE, a[\"x\"])")
		return t
	}
	descr := p.quoted()
	t, ok := parseArrayType(descr)
	if little, big := strings.CutPrefix(descr, ">"); !ok && big {
		if _, known := parseArrayType("<" + little); known {
			p.fail("its elements are big-endian: save them as numpy.save(FILE, a.astype(%q))",
				"<"+little)
		}
	}
	if !ok && p.err == nil {
		p.fail("its dtype is %.40q, which is none of bool, int8 to int64, uint8 to uint64 and "+
			"float16 to float64: save it as numpy.save(FILE, a.astype(\"<f4\"))", descr)
	}
	return t
}

func (p *literal) shape() (shape []int) {
	p.expect("(")
	for p.err == nil && !p.takes(")") {
		p.takes("")
		digits := len(p.text) - len(strings.TrimLeft(p.text, "0123456789"))
		n, err := strconv.Atoi(p.text[:digits])
		if p.text = p.text[digits:]; err != nil {
			p.fail("its shape has something that is no length")
		}
		if shape = append(shape, n); len(shape) > maxDims {
			p.fail("it has more than %d dimensions", maxDims)
		}
		p.takes("L") // Python 2
		if !p.takes(",") {
			p.expect(")")
			break
		}
	}
	return shape
}

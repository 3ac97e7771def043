package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

// npyHead is the beginning of a .npy file of a version, whose header is a text.
func npyHead(version byte, text string) string {
	head := "\x93NUMPY" + string(version) + "\x00"
	if version == 1 {
		return head + string(binary.LittleEndian.AppendUint16(nil, uint16(len(text)))) + text
	}
	return head + string(binary.LittleEndian.AppendUint32(nil, uint32(len(text)))) + text
}

func npyText(descr, order, shape string) string {
	return fmt.Sprintf("{'descr': %s, 'fortran_order': %s, 'shape': %s, }  \n", descr, order, shape)
}

func TestReadNPYHeader(t *testing.T) {
	for _, c := range []struct {
		version    byte
		text       string
		name       string
		shape      []int
		dataLength int64
	}{
		{1, npyText("'<f4'", "False", "(5,)"), "float32", []int{5}, 20},
		{2, npyText("'<i2'", "False", "(2, 3)"), "int16", []int{2, 3}, 12},
		{3, npyText("'|b1'", "False", "()"), "bool", nil, 1},
		{1, npyText(`"<u8"`, "False", "(0, 7)"), "uint64", []int{0, 7}, 0},
		{1, npyText("'<f8'", "True", "(3,)"), "float64", []int{3}, 24},
		{1, npyText("'>i1'", "False", "(3L, 1L)"), "int8", []int{3, 1}, 3},
		{1, "{'shape':(2,),'descr':'<f2','fortran_order':False}", "float16", []int{2}, 4},
	} {
		head := npyHead(c.version, c.text)
		h, err := ReadNPYHeader([]byte(head), int64(len(head))+c.dataLength)
		if err != nil || h.Type.String() != c.name || !slices.Equal(h.Shape, c.shape) || h.Bytes != int64(len(head)) {
			t.Errorf("%q: %+v, %v", c.text, h, err)
		}
		for k := range len(head) {
			if _, err := ReadNPYHeader([]byte(head[:k]), int64(len(head))+c.dataLength); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%q: its first %d bytes: %v", c.text, k, err)
			}
		}
		for _, wrong := range []int64{-1, 1} {
			if _, err := ReadNPYHeader([]byte(head), int64(len(head))+c.dataLength+wrong); err == nil {
				t.Errorf("%q: a file with %d bytes more is taken", c.text, wrong)
			}
		}
	}
	good := npyText("'<f4'", "False", "(1,)")
	for text, rule := range map[string]string{
		npyText("'>f4'", "False", "(1,)"):                           `numpy.save(FILE, a.astype("<f4"))`,
		npyText("'<f4'", "True", "(1, 1)"):                          "numpy.save(FILE, numpy.ascontiguousarray(a))",
		npyText("'|O'", "False", "(1,)"):                            `its dtype is "|O"`,
		npyText("'<c8'", "False", "(1,)"):                           `its dtype is "<c8"`,
		npyText("'<U3'", "False", "(1,)"):                           "save it as",
		npyText("[('x', '<f4')]", "False", "(1,)"):                  "save each of them as an array of its own",
		npyText("('<f4', (2,))", "False", "(1,)"):                   "save each of them as an array of its own",
		npyText("'<f4'", "False", "(-1,)"):                          "no length",
		npyText("'<f4'", "False", "(1.5,)"):                         "no .npy",
		npyText("'<f4'", "False", "(99999999999999999999,)"):        "no length",
		npyText("'<f4'", "False", "(4294967296, 4294967296)"):       "larger than a file can be",
		npyText("'<f4'", "False", "(0, 4611686018427387904)"):       "larger than a file can be",
		npyText("'<f4'", "False", "("+strings.Repeat("1,", 33)+")"): "more than 32 dimensions",
		"{'descr': '<f4', 'fortran_order': False}":                  "no .npy",
		good[:20]:                      "no .npy",
		good + "x":                     "no .npy",
		"{'descr': '<f4', " + good[1:]: "no .npy",
		"":                             "no .npy",
		"__import__('os')":             "no .npy",
		strings.Repeat("(", 60<<10):    "no .npy",
	} {
		head := npyHead(2, text)
		_, err := ReadNPYHeader([]byte(head), int64(len(head))+4)
		if err == nil || !strings.Contains(err.Error(), rule) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80q: %v", text, err)
		}
	}
	huge := []byte(npyHead(2, good))
	binary.LittleEndian.PutUint32(huge[8:], math.MaxUint32)
	for _, head := range []string{string(huge), "GIF89a and more", "\x93NUMPY\x09\x00\x01\x00{} ", "\x93NUMPY", npyHead(1, good)[:40]} {
		if _, err := ReadNPYHeader([]byte(head), int64(len(head))); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%.20q: %v", head, err)
		}
	}
}

func FuzzReadNPYHeader(f *testing.F) {
	f.Add([]byte(npyHead(1, npyText("'<f4'", "False", "(2, 3)"))), int64(24))
	f.Add([]byte(npyHead(3, npyText("'|u1'", "True", "(3L,)"))), int64(3))
	f.Fuzz(func(t *testing.T, head []byte, more int64) {
		size := int64(len(head)) + max(0, more)
		h, err := ReadNPYHeader(head, size)
		if err != nil {
			return
		}
		x := newTensor(NPY, "", h.Type, h.Shape...)
		if h.Bytes+x.bytes() != size || len(h.Shape) > maxDims {
			t.Errorf("%q of %d bytes: %+v", head, size, h)
		}
		again := make([]byte, Page)
		putNPYHeader(again, &x)
		data := size - h.Bytes
		if same, err := ReadNPYHeader(again, Page+data); err != nil || same.Type != h.Type || !slices.Equal(same.Shape, h.Shape) {
			t.Errorf("%+v is written as %+v, %v", h, same, err)
		}
	})
}

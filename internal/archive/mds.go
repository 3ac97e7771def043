package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// shard is a shard of MosaicML's streaming format. It holds the number of samples, the offset of
// each and the end of the last, a description of the columns, and the samples: the lengths of all
// columns with varying length, then all columns.
type shard struct {
	*scanner
	block   block
	offsets []uint32
	columns struct {
		Names []string `json:"column_names"`
		Codes []string `json:"column_encodings"`
		Sizes []*int64 `json:"column_sizes"` // null for columns of varying length
	}
	image, label int // columns; -1 for none
}

// numbers are the encodings of whole numbers, with their sizes in bytes.
var numbers = map[string]int{
	"int": 8, "int64": 8, "uint64": 8, "int32": 4, "uint32": 4, "int16": 2, "uint16": 2, "int8": 1, "uint8": 1,
}

// mds scans a shard.
func (s *scanner) mds() error {
	m := &shard{scanner: s, block: block{w: s.window, place: Place{Length: s.size}, size: s.size}, image: -1, label: -1}
	s.Kind, s.Ordered = "mds", true
	if err := m.open(); err != nil {
		return err
	}
	if err := m.describe(); err != nil {
		return err
	}
	for i := range len(m.offsets) - 1 {
		if err := m.sample(int64(m.offsets[i]), int64(m.offsets[i+1])); err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
	}
	s.nameRows(false)
	return nil
}

// open unpacks the shard if it is compressed. Every read of a sample must do the same.
func (m *shard) open() error {
	var h zstd.Header
	head, err := m.bytes(0, int(min(m.size, zstd.HeaderMaxSize)))
	if err != nil || len(head) < 4 || h.Decode(head) != nil || h.Skippable {
		return err // not compressed
	}
	if !h.HasFCS {
		return errors.New("it does not say how large it is when it is unpacked; write it with another version of zstd")
	}
	m.block.place.Coding = Zstd
	return m.block.unpack(int64(h.FrameContentSize), new([]byte))
}

func (m *shard) describe() error {
	b, err := m.block.bytes(0, 4)
	if err != nil {
		return errors.New("no MDS shard, or it is cut short")
	}
	n := int64(le32(b))
	from := 4 * (n + 2)
	if from > m.block.size {
		return fmt.Errorf("it claims %d samples: %w", n, errDamaged)
	}
	before := uint64(from)
	for at := int64(4); at < from; at += 4 { // one after the other: a hole in a file claims any number
		if b, err = m.block.bytes(at, 4); err != nil {
			return err
		}
		offset := le32(b)
		if uint64(offset) < before || int64(offset) > m.block.size {
			return fmt.Errorf("sample %d begins at %d: %w", len(m.offsets), offset, errDamaged)
		}
		m.offsets, before = append(m.offsets, offset), uint64(offset)
	}
	if b, err = m.block.bytes(from, min(int64(m.offsets[0])-from, maxField)); err != nil {
		return err
	}
	if err := json.Unmarshal(b, &m.columns); err != nil {
		return fmt.Errorf("the description of its columns: %w", err)
	}
	if len(m.columns.Names) != len(m.columns.Codes) || len(m.columns.Names) != len(m.columns.Sizes) {
		return fmt.Errorf("the description of its columns: %w", errDamaged)
	}
	return m.choose()
}

// choose finds the columns of images and labels: the requested ones, or those with the best names.
func (m *shard) choose() error {
	best := [2]int{math.MaxInt, math.MaxInt}
	for i, name := range m.columns.Names {
		code, _, _ := strings.Cut(m.columns.Codes[i], ":")
		switch r := rank(m.Image, usualImages, name); {
		case code == "jpeg" || code == "png" || code == "pil" || code == "bytes":
			if r < 0 && m.Image == "" && code != "bytes" {
				r = 100 + i
			}
			if r >= 0 && r < best[0] {
				best[0], m.image = r, i
			}
		}
		r := rank(m.Label, usualLabels, name)
		if _, number := numbers[code]; (number || code == "str" || code == "str_int") && r >= 0 && r < best[1] {
			best[1], m.label = r, i
		}
	}
	switch {
	case m.image < 0:
		return fmt.Errorf("no column holds images as jpeg, png, pil or bytes; it has %q", m.columns.Names)
	case m.label < 0 && m.Label != "" && m.Label != NoLabel:
		return fmt.Errorf("%w: no column %q holds labels; it has %q", ErrLabels, m.Label, m.columns.Names)
	case m.label < 0 && m.Label == "":
		for i, name := range m.columns.Names {
			if code, _, _ := strings.Cut(m.columns.Codes[i], ":"); numbers[code] > 0 {
				m.Numbers = append(m.Numbers, name)
			}
		}
	}
	return nil
}

// sample finds the image and the label of the sample that lies between two offsets.
func (m *shard) sample(from, end int64) error {
	varying := int64(0)
	for _, size := range m.columns.Sizes {
		if size == nil {
			varying++
		}
	}
	b, err := m.block.bytes(from, 4*varying)
	if err != nil {
		return err
	}
	var image, label span
	at := from + 4*varying
	for i, size := range m.columns.Sizes {
		var n int64
		if size != nil {
			n = *size
		} else {
			n, b = int64(le32(b)), b[4:]
		}
		if n < 0 || n > end-at {
			return errDamaged
		}
		switch i {
		case m.image:
			image = span{uint32(at), uint32(n)}
		case m.label:
			label = span{uint32(at), uint32(n)}
		}
		at += n
	}
	if err := m.addImage(&value{&m.block, image}); err != nil || m.label < 0 {
		return err
	}
	return m.readLabel(&value{&m.block, label})
}

// addImage appends a sample. A PIL image is pixels, so its place starts after the header.
func (m *shard) addImage(v *value) error {
	if m.columns.Codes[m.image] != "pil" {
		m.add("", v.place())
		return nil
	}
	const head = 15 // width, height, the length of the mode, and the mode
	b, err := m.block.bytes(int64(v.from), min(head, int64(v.span.size)))
	if err != nil {
		return err
	}
	if len(b) < head || le32(b[8:]) != 3 || string(b[12:]) != "RGB" ||
		le32(b) > math.MaxUint16 || le32(b[4:]) > math.MaxUint16 || m.block.place.Coding != Plain {
		m.addProblem("", "its pixels are not RGB, or are in a compressed shard; write the column as jpeg or png")
		return nil
	}
	p := placeOfPixels(int64(v.from)+head, uint16(le32(b[4:])), uint16(le32(b)))
	if p.Length != int64(v.span.size)-head {
		return errDamaged
	}
	m.add("", p)
	return nil
}

func (m *shard) readLabel(v *value) error {
	sample := &m.Samples[len(m.Samples)-1]
	b, err := v.bytes(maxClass)
	if err != nil {
		return err
	}
	code := m.columns.Codes[m.label]
	switch code {
	case "str":
		return m.setClass(sample, string(b))
	case "str_int":
		return m.setText(sample, string(b))
	}
	size := numbers[code]
	if len(b) != size {
		return errDamaged
	}
	var wide [8]byte
	copy(wide[:], b)
	unused := 64 - 8*size
	n := int64(le64(wide[:])) << unused >> unused
	if code[0] == 'u' && size < 8 {
		n = int64(le64(wide[:]))
	}
	return setNumber(sample, n)
}

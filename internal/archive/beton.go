package archive

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The parts of FFCV's files, in bytes: a header, a description of each field, the samples'
// metadata, data in pages, and at the end a table of what was allocated.
const (
	betonHeader = 24
	betonField  = 1 + betonName + 1024
	betonName   = 16
	betonAlloc  = 24
)

// Kinds of fields. In a sample's metadata, fields other than numbers are not aligned.
const (
	betonFloat = iota
	betonInt
	betonImage
	betonBytes
	betonArray
	betonJSON
	betonTensor
)

// beton is a file of FFCV.
type beton struct {
	*scanner
	samples     int64
	fields      int
	table       int64 // its offset
	stride      int64 // bytes of metadata per sample
	image       int64 // offset of the image's metadata
	label       int64 // -1 for none
	allocations []allocation
}

type allocation struct{ at, size uint64 }

// beton scans a file of FFCV.
func (s *scanner) beton() error {
	s.Kind, s.Ordered = "beton", true
	b, err := s.bytes(0, betonHeader)
	if err != nil {
		return errors.New("no beton file, or it is cut short")
	}
	if version := le16(b); version != 2 {
		return fmt.Errorf("it is of version %d; only version 2 can be read", version)
	}
	f := &beton{scanner: s, fields: int(le16(b[2:])), samples: int64(le64(b[8:])), table: int64(le64(b[16:])), label: -1}
	if err := f.layout(); err != nil {
		return err
	}
	start := betonHeader + int64(f.fields)*betonField
	if f.samples < 0 || f.table < start || f.table > s.size || f.samples > (f.table-start)/f.stride {
		return fmt.Errorf("it claims %d samples: %w", f.samples, errDamaged)
	}
	if err := f.readTable(); err != nil {
		return err
	}
	for i := range f.samples {
		b, err := s.bytes(start+i*f.stride, int(f.stride))
		if err == nil {
			err = f.sample(b)
		}
		if err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
	}
	s.nameRows(false)
	return nil
}

// layout finds where the fields are in the metadata.
func (f *beton) layout() error {
	var names []string
	best, bestLabel, align := math.MaxInt, math.MaxInt, int64(1)
	for i := range f.fields {
		b, err := f.bytes(betonHeader+int64(i)*betonField, 1+betonName)
		if err != nil {
			return err
		}
		kind, name := b[0], strings.TrimRight(string(b[1:]), "\x00")
		names = append(names, name)
		size := int64(8)
		switch kind {
		case betonFloat, betonInt, betonArray, betonTensor:
			align = 8
			f.stride = (f.stride + 7) &^ 7
		case betonImage:
			size = 13
		case betonBytes, betonJSON:
			size = 16
		default:
			return fmt.Errorf("field %q is of a kind that is not known", name)
		}
		if r := rank(f.Image, usualImages, name); kind == betonImage {
			if r < 0 && f.Image == "" {
				r = 100 + i
			}
			if r >= 0 && r < best {
				best, f.image = r, f.stride
			}
		}
		if r := rank(f.Label, usualLabels, name); kind == betonInt && r >= 0 && r < bestLabel {
			bestLabel, f.label = r, f.stride
		}
		f.stride += size
	}
	f.stride = (f.stride + align - 1) &^ (align - 1)
	switch {
	case best == math.MaxInt:
		return fmt.Errorf("no field holds images; it has %q", names)
	case f.Label != "" && f.label < 0:
		return fmt.Errorf("no field %q holds whole numbers; it has %q", f.Label, names)
	}
	return nil
}

// readTable reads how long each allocation is.
func (f *beton) readTable() error {
	n := (f.size - f.table) / betonAlloc
	if n > f.samples*int64(f.fields) {
		return fmt.Errorf("its table of allocations: %w", errDamaged)
	}
	f.allocations = make([]allocation, n)
	for i := range f.allocations {
		b, err := f.bytes(f.table+int64(i)*betonAlloc, betonAlloc)
		if err != nil {
			return err
		}
		f.allocations[i] = allocation{le64(b[8:]), le64(b[16:])}
	}
	slices.SortFunc(f.allocations, func(a, b allocation) int { return cmp.Compare(a.at, b.at) })
	return nil
}

func (f *beton) sample(b []byte) error {
	const jpeg, raw = 0, 1
	m := b[f.image:]
	mode, width, height, at := m[0], le16(m[1:]), le16(m[3:]), le64(m[5:])
	i, ok := slices.BinarySearchFunc(f.allocations, at, func(a allocation, at uint64) int { return cmp.Compare(a.at, at) })
	if !ok || at > uint64(f.size) || f.allocations[i].size > uint64(f.size)-at {
		return fmt.Errorf("its data: %w", errDamaged)
	}
	p := Place{Offset: int64(at), Length: int64(f.allocations[i].size), Size: int64(f.allocations[i].size)}
	if mode == raw {
		if p = placeOfPixels(p.Offset, height, width); p.Length != int64(f.allocations[i].size) {
			return fmt.Errorf("its pixels: %w", errDamaged)
		}
	} else if mode != jpeg {
		return fmt.Errorf("its image is neither JPEG nor pixels")
	}
	f.add("", p)
	if f.label < 0 {
		return nil
	}
	return setNumber(&f.Samples[len(f.Samples)-1], int64(le64(b[f.label:])))
}

package layout

import "encoding/binary"

// A .safetensors file is the header's length (8 bytes), a JSON header, and the tensors back to
// back, without holes, each at a multiple of its elements' size. The header is padded with spaces,
// which the format allows, until the images start on a page.

// metadataKey is the name that the format forbids for tensors.
const metadataKey = "__metadata__"

// InSafeTensors is where in a .safetensors file the masks, or the elements of an array, are, and
// their size.
func InSafeTensors(f Form, s Spec) (at, bytes int64) {
	var room [usual]tensor
	list := s.tensors(room[:0])
	at = dataOffset(&s, list)
	for i := range list {
		if bytes = list[i].bytes(); list[i].form == f {
			return at, bytes
		}
		at += bytes
	}
	return 0, 0
}

// dataOffset is where the first tensor starts in the file.
func dataOffset(s *Spec, list []tensor) int64 {
	var buf [1024]byte
	header, before := int64(8+len(appendTensorsJSON(buf[:0], s, list))), int64(0)
	for i := 0; list[i].form != NPY; i++ {
		before += list[i].bytes()
	}
	return roundUp(header+before, Page) - before
}

// appendTensorsJSON appends the header.
func appendTensorsJSON(dst []byte, s *Spec, list []tensor) []byte {
	dst = appendAll(dst, `{"`, metadataKey, `":{"layout":"`, s.Order.String(), `"}`)
	at := 0
	for i := range list {
		x := &list[i]
		end := at + int(x.bytes())
		dst = appendAll(dst, `,"`, x.name, `":{"dtype":"`, x.safetensors, `","shape":[`)
		dst = append(appendInts(dst, ",", x.shape()...), `],"data_offsets":[`...)
		dst = append(appendInts(dst, ",", at, end), "]}"...)
		at = end
	}
	return append(dst, '}')
}

// putSafeTensors writes everything except for images, masks and elements of arrays.
func putSafeTensors(s *Spec, dst []byte, m *Meta) {
	var room [usual]tensor
	list := s.tensors(room[:0])
	at := dataOffset(s, list)
	binary.LittleEndian.PutUint64(dst, uint64(at-8))
	end := 8 + len(appendTensorsJSON(dst[8:8], s, list))
	fillSpaces(dst[end:at])
	for i := range list {
		x := &list[i]
		from := at
		at += x.bytes()
		if _, elements := x.form.Array(); x.form != NPY && x.form != MasksNPY && !elements {
			m.put(dst[from:at], x, s)
		}
	}
}

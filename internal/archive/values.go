package archive

import (
	"bytes"
	"encoding/binary"
	"io"
)

// walk steps through consecutive values.
type walk struct {
	block *block
	at    int64
	width int64
}

func (w *walk) next() (span, error) {
	n := w.width
	if n == 0 {
		b, err := w.block.bytes(w.at, 4)
		if err != nil {
			return span{}, err
		}
		n, w.at = int64(le32(b)), w.at+4
	}
	v := span{uint32(w.at), uint32(n)}
	if w.at += n; w.at > w.block.size {
		return span{}, errDamaged
	}
	return v, nil
}

// hybrid reads numbers that are run-length encoded or bit-packed.
type hybrid struct {
	b      []byte
	width  int
	run    uint64 // numbers left in the run
	packed bool
	value  uint64 // of a run-length encoded run
	bits   uint64 // of a bit-packed run
	have   int
}

// newHybrid copies b, which may be overwritten soon.
func newHybrid(b []byte, width int) *hybrid {
	return &hybrid{b: bytes.Clone(b), width: width}
}

func (h *hybrid) next() (uint64, error) {
	for h.run == 0 {
		head, n := binary.Uvarint(h.b)
		if n <= 0 {
			return 0, io.ErrUnexpectedEOF
		}
		h.b = h.b[n:]
		h.bits, h.have = 0, 0
		if h.run, h.packed = head>>1, head&1 == 1; h.packed {
			h.run = min(h.run, 1<<32) * 8
			continue
		}
		size := (h.width + 7) / 8
		if len(h.b) < size {
			return 0, io.ErrUnexpectedEOF
		}
		var v [8]byte
		copy(v[:], h.b[:size])
		h.value, h.b = le64(v[:]), h.b[size:]
	}
	h.run--
	if !h.packed {
		return h.value, nil
	}
	for ; h.have < h.width; h.have += 8 {
		if len(h.b) == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		h.bits |= uint64(h.b[0]) << h.have
		h.b = h.b[1:]
	}
	v := h.bits & (1<<h.width - 1)
	h.bits, h.have = h.bits>>h.width, h.have-h.width
	return v, nil
}

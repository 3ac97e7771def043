package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

var (
	le32 = binary.LittleEndian.Uint32
	le64 = binary.LittleEndian.Uint64
)

var errPage = errors.New("a page is damaged")

// codings are those of pages that can be unpacked. The framing of the older LZ4 is not defined.
var codings = map[format.CompressionCodec]Coding{
	format.Uncompressed: Plain, format.Snappy: Snappy, format.Gzip: Gzip, format.Brotli: Brotli, format.Zstd: Zstd, format.Lz4Raw: LZ4,
}

// chunk reads a column of a row group, page by page.
type chunk struct {
	*window
	at, end    int64 // the pages that are left
	coding     Coding
	width      int64 // of a value in bytes, 0 where each has its length before it
	present    uint8 // the definition level of values that are not null
	dictionary *page
	entries    []span // of the dictionary
	header     format.PageHeader
	room       []byte // for the unpacked page
}

// page is the part of a page that holds values. If it is not compressed, it stays in the file.
type page struct {
	c     *chunk
	place Place // of the whole of it
	body  []byte
	size  int64
}

// span is where a value is in its page.
type span struct{ from, size uint32 }

// value is one value of a column. It is valid until the next one.
type value struct {
	page *page
	span
}

func (p *page) bytes(from, n int64) ([]byte, error) {
	switch {
	case from < 0 || n < 0 || from > p.size-n:
		return nil, errPage
	case p.place.Coding == Plain:
		return p.c.window.bytes(p.place.Offset+from, int(n))
	}
	return p.body[from:][:n], nil
}

func (v *value) bytes(most int64) ([]byte, error) {
	if int64(v.size) > most {
		return nil, fmt.Errorf("a value is longer than %d bytes", most)
	}
	return v.page.bytes(int64(v.from), int64(v.size))
}

func (v *value) place() Place {
	p := v.page.place
	if p.Size = int64(v.size); p.Coding == Plain {
		p.Offset, p.Length = p.Offset+int64(v.from), p.Size
		return p
	}
	p.From = int64(v.from)
	return p
}

// chunk prepares the reading of a column.
func (t *table) chunk(leaf *parquet.LeafColumn, f *format.ColumnChunk) (*chunk, error) {
	data := &f.MetaData
	coding, ok := codings[data.Codec]
	start := data.DataPageOffset
	if d := data.DictionaryPageOffset; d > 0 && d < start {
		start = d
	}
	switch {
	case f.FilePath != "":
		return nil, errors.New("it is in another file")
	case f.CryptoMetadata.Value != nil || len(f.EncryptedColumnMetadata) > 0:
		return nil, errors.New("it is encrypted; write it without encryption")
	case !ok:
		return nil, fmt.Errorf("it is compressed with %s; write it with snappy or zstd", data.Codec)
	case start < 4 || data.TotalCompressedSize < 0 || start > t.size-data.TotalCompressedSize:
		return nil, errors.New("it lies outside of the file")
	case leaf == t.image && start < t.end: // else a small file could claim any number of samples
		return nil, errors.New("row groups overlap")
	}
	c := &chunk{window: t.window, at: start, end: start + data.TotalCompressedSize, coding: coding, present: uint8(leaf.MaxDefinitionLevel)}
	switch leaf.Node.Type().Kind() {
	case parquet.Int32:
		c.width = 4
	case parquet.Int64:
		c.width = 8
	}
	if leaf == t.image {
		t.end = c.end
	}
	return c, nil
}

// eachRow calls f for each row with its value, nil if it is null.
func (c *chunk) eachRow(rows int64, f func(row int, v *value) error) error {
	row := int64(0)
	for row < rows {
		header, err := c.next()
		if err != nil {
			return err
		}
		n := int64(0)
		switch v1, v2 := header.DataPageHeader, header.DataPageHeaderV2; {
		case header.Type == format.DictionaryPage && c.dictionary == nil && row == 0:
			err = c.readDictionary(int64(header.DictionaryPageHeader.V.NumValues))
		case header.Type == format.DataPage && v1.Valid:
			n = int64(v1.V.NumValues)
			err = c.dataPage(n, rows-row, v1.V.Encoding, func(i int, v *value) error { return f(int(row)+i, v) })
		case header.Type == format.DataPageV2 && v2.Valid:
			n = int64(v2.V.NumValues)
			err = c.dataPage(n, rows-row, v2.V.Encoding, func(i int, v *value) error { return f(int(row)+i, v) })
		case header.Type == format.IndexPage:
		default:
			err = errPage
		}
		if err != nil {
			return err
		}
		row += n
		c.at += int64(header.CompressedPageSize)
	}
	return nil
}

// next reads the header of the next page, and moves behind it.
func (c *chunk) next() (*format.PageHeader, error) {
	var protocol thrift.CompactProtocol
	for n := int64(256); ; n *= 16 {
		b, err := c.bytes(c.at, int(min(n, c.end-c.at)))
		if err != nil {
			return nil, err
		}
		r := protocol.NewReaderFromBytes(b)
		c.header = format.PageHeader{}
		if err = thrift.NewDecoder(r).Decode(&c.header); err == nil {
			c.at += int64(r.BytesRead())
			break
		}
		if int64(len(b)) < n || n > 1<<20 {
			return nil, fmt.Errorf("%w: %w", errPage, err)
		}
	}
	h := &c.header
	if h.CompressedPageSize < 0 || h.UncompressedPageSize < 0 || int64(h.CompressedPageSize) > c.end-c.at {
		return nil, errPage
	}
	return h, nil
}

// open unpacks the page at c.at, all but the bytes before it that are not packed.
func (c *chunk) open(before int64, packed bool) (*page, error) {
	h := &c.header
	p := &page{c: c, place: Place{Offset: c.at + before, Length: int64(h.CompressedPageSize) - before}}
	if p.place.Length < 0 {
		return nil, errPage
	}
	if c.coding == Plain || !packed {
		p.size = p.place.Length
		return p, nil
	}
	p.size = int64(h.UncompressedPageSize) - before
	p.place.Coding, p.place.Block, p.place.Size = c.coding, p.size, p.size
	if p.size < 0 || !p.place.Within(c.size) {
		return nil, fmt.Errorf("%w, or larger than %d bytes", errPage, maxBlock)
	}
	stored, err := c.bytes(p.place.Offset, int(p.place.Length))
	if err != nil {
		return nil, err
	}
	if int64(cap(c.room)) < p.size {
		c.room = make([]byte, p.size)
	}
	p.body, err = p.place.Unpack(c.room[:0], stored)
	return p, err
}

func (c *chunk) readDictionary(n int64) (err error) {
	if c.dictionary, err = c.open(0, true); err != nil {
		return err
	}
	c.room = nil // it stays the dictionary's
	if n < 0 || n > c.dictionary.size/4 {
		return errPage
	}
	w := walk{page: c.dictionary, width: c.width}
	for range n {
		v, err := w.next()
		if err != nil {
			return err
		}
		c.entries = append(c.entries, v)
	}
	return nil
}

// dataPage calls f for the n values of the page at c.at.
func (c *chunk) dataPage(n, most int64, encoding format.Encoding, f func(i int, v *value) error) error {
	if n < 0 || n > most {
		return errPage
	}
	p, levels, from, err := c.levels(n)
	if err != nil {
		return err
	}
	v := value{page: p}
	next := func() (span, error) {
		return span{}, fmt.Errorf("values are encoded as %s; write them plain, or with a dictionary", encoding)
	}
	switch {
	case encoding == format.Plain:
		next = (&walk{page: p, at: from, width: c.width}).next
	case (encoding == format.RLEDictionary || encoding == format.PlainDictionary) && c.dictionary != nil:
		v.page = c.dictionary
		next, err = c.indexes(p, from)
	}
	for i := 0; i < int(n) && err == nil; i++ {
		level := uint64(c.present)
		if levels != nil {
			level, err = levels.next()
		}
		switch {
		case err != nil:
		case level != uint64(c.present):
			err = f(i, nil)
		default:
			if v.span, err = next(); err == nil {
				err = f(i, &v)
			}
		}
	}
	return err
}

// levels opens the page at c.at. It returns the definition levels, nil where all values are present, and where the
// values begin.
func (c *chunk) levels(n int64) (p *page, levels *hybrid, from int64, err error) {
	width := bits.Len8(c.present)
	if h := c.header.DataPageHeaderV2; h.Valid {
		before := int64(h.V.DefinitionLevelsByteLength)
		if before < 0 || h.V.RepetitionLevelsByteLength != 0 {
			return nil, nil, 0, errPage
		}
		if p, err = c.open(before, !h.V.IsCompressed.Valid || h.V.IsCompressed.V); err != nil {
			return nil, nil, 0, err
		}
		if c.present > 0 {
			b, err := c.bytes(c.at, int(before))
			if err != nil {
				return nil, nil, 0, err
			}
			levels = newHybrid(b, width)
		}
	} else {
		if p, err = c.open(0, true); err != nil {
			return nil, nil, 0, err
		}
		if c.present > 0 {
			if c.header.DataPageHeader.V.DefinitionLevelEncoding != format.RLE {
				return nil, nil, 0, errors.New("levels are in an encoding that is out of use; write the file anew")
			}
			b, err := p.bytes(0, 4)
			if err == nil {
				from = 4 + int64(le32(b))
				b, err = p.bytes(4, from-4)
			}
			if err != nil {
				return nil, nil, 0, err
			}
			levels = newHybrid(b, width)
		}
	}
	return p, levels, from, nil
}

// indexes returns what yields the entries of the dictionary that a page's values are.
func (c *chunk) indexes(p *page, from int64) (func() (span, error), error) {
	b, err := p.bytes(from, p.size-from)
	if err != nil || len(b) == 0 {
		return func() (span, error) { return span{}, errPage }, err
	}
	if b[0] > 32 {
		return nil, errPage
	}
	h := newHybrid(b[1:], int(b[0]))
	return func() (span, error) {
		i, err := h.next()
		if err != nil || i >= uint64(len(c.entries)) {
			return span{}, errPage
		}
		return c.entries[i], nil
	}, nil
}

// walk goes through values that stand one after the other.
type walk struct {
	page  *page
	at    int64
	width int64
}

func (w *walk) next() (span, error) {
	n := w.width
	if n == 0 {
		b, err := w.page.bytes(w.at, 4)
		if err != nil {
			return span{}, err
		}
		n, w.at = int64(le32(b)), w.at+4
	}
	v := span{uint32(w.at), uint32(n)}
	if w.at += n; w.at > w.page.size {
		return span{}, errPage
	}
	return v, nil
}

// hybrid reads numbers that are run-length encoded or packed in bits.
type hybrid struct {
	b      []byte
	width  int
	run    uint64 // numbers that are left of the run
	packed bool
	value  uint64 // of a run that is not packed
	bits   uint64 // of one that is
	have   int
}

// newHybrid copies b, which may not live long.
func newHybrid(b []byte, width int) *hybrid {
	return &hybrid{b: append([]byte(nil), b...), width: width}
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

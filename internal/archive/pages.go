package archive

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// codings are the codecs of pages that can be unpacked. The framing of the older LZ4 is undefined.
var codings = map[format.CompressionCodec]Coding{
	format.Uncompressed: Plain, format.Snappy: Snappy, format.Gzip: Gzip,
	format.Brotli: Brotli, format.Zstd: Zstd, format.Lz4Raw: LZ4,
}

// chunk reads a column of a row group, page by page.
type chunk struct {
	*window
	at, end    int64 // the pages that are left
	coding     Coding
	width      int64 // bytes per value, 0 if a length precedes each value
	present    uint8 // definition level of values that are not null
	dictionary *block
	entries    []span // of the dictionary
	header     format.PageHeader
	room       []byte // for the unpacked page
}

// close frees the dictionary and the last page.
func (c *chunk) close() {
	held := int64(cap(c.room))
	if c.dictionary != nil {
		held += int64(cap(c.dictionary.body))
	}
	_ = c.take(-held) // it fails only if the scan has failed
}

// chunk prepares reading a column.
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
	case leaf == t.image && start < t.end: // otherwise, a small file could claim any number of samples
		return nil, errors.New("row groups overlap")
	}
	c := &chunk{window: t.window, at: start, end: start + data.TotalCompressedSize, coding: coding}
	c.present = uint8(leaf.MaxDefinitionLevel)
	switch leaf.Node.Type().Kind() {
	case parquet.Int32, parquet.Float:
		c.width = 4
	case parquet.Int64, parquet.Double:
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
		inPage := func(i int, v *value) error { return f(int(row)+i, v) }
		switch v1, v2 := header.DataPageHeader, header.DataPageHeaderV2; {
		case header.Type == format.DictionaryPage && c.dictionary == nil && row == 0:
			err = c.readDictionary(int64(header.DictionaryPageHeader.V.NumValues))
		case header.Type == format.DataPage && v1.Valid:
			n = int64(v1.V.NumValues)
			err = c.dataPage(n, rows-row, v1.V.Encoding, inPage)
		case header.Type == format.DataPageV2 && v2.Valid:
			n = int64(v2.V.NumValues)
			err = c.dataPage(n, rows-row, v2.V.Encoding, inPage)
		case header.Type == format.IndexPage:
		default:
			err = errDamaged
		}
		if err != nil {
			return err
		}
		row += n
		c.at += int64(header.CompressedPageSize)
	}
	return nil
}

// next reads the header of the next page, and moves past it.
func (c *chunk) next() (*format.PageHeader, error) {
	var protocol thrift.CompactProtocol
	for n := int64(256); ; n *= 16 {
		b, err := c.bytes(c.at, int(min(n, c.end-c.at)))
		if err != nil {
			return nil, err
		}
		r := protocol.NewReaderFromBytes(b)
		c.header = format.PageHeader{}
		if err = checkThrift(b); err == nil {
			err = caught(func() error { return thrift.NewDecoder(r).Decode(&c.header) })
		}
		if err == nil {
			c.at += int64(r.BytesRead())
			break
		}
		if int64(len(b)) < n || n > 1<<20 {
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
	h := &c.header
	if h.CompressedPageSize < 0 || h.UncompressedPageSize < 0 || int64(h.CompressedPageSize) > c.end-c.at {
		return nil, errDamaged
	}
	return h, nil
}

// open unpacks the page at c.at, except for the first before bytes, which are not packed.
func (c *chunk) open(before int64, packed bool) (*block, error) {
	h := &c.header
	p := &block{w: c.window, place: Place{Offset: c.at + before, Length: int64(h.CompressedPageSize) - before}}
	if p.place.Length < 0 {
		return nil, errDamaged
	}
	if c.coding == Plain || !packed {
		p.size = p.place.Length
		return p, nil
	}
	p.place.Coding = c.coding
	err := p.unpack(int64(h.UncompressedPageSize)-before, &c.room)
	return p, err
}

func (c *chunk) readDictionary(n int64) (err error) {
	if c.dictionary, err = c.open(0, true); err != nil {
		return err
	}
	c.room = nil // it now belongs to the dictionary
	w := walk{block: c.dictionary, width: c.width}
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
		return errDamaged
	}
	p, levels, from, err := c.levels()
	if err != nil {
		return err
	}
	v := value{block: p}
	next := func() (span, error) {
		return span{}, fmt.Errorf("values are encoded as %s; write them plain, or with a dictionary", encoding)
	}
	switch {
	case encoding == format.Plain:
		next = (&walk{block: p, at: from, width: c.width}).next
	case (encoding == format.RLEDictionary || encoding == format.PlainDictionary) && c.dictionary != nil: //nolint:staticcheck // files of older writers have the latter
		v.block = c.dictionary
		next, err = c.indexes(p, from)
	case encoding == format.DeltaBinaryPacked && c.width > 0, encoding == format.DeltaLengthByteArray && c.width == 0:
		v.block, next, err = c.delta(p, from, n, encoding)
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

// levels opens the page at c.at. It returns the definition levels, nil if all values are present,
// and where the values begin.
func (c *chunk) levels() (p *block, levels *hybrid, from int64, err error) {
	var b []byte
	if c.header.Type == format.DataPageV2 {
		h := &c.header.DataPageHeaderV2.V
		before := int64(h.DefinitionLevelsByteLength)
		if before < 0 || h.RepetitionLevelsByteLength != 0 {
			return nil, nil, 0, errDamaged
		}
		if p, err = c.open(before, !h.IsCompressed.Valid || h.IsCompressed.V); err != nil || c.present == 0 {
			return p, nil, 0, err
		}
		b, err = c.bytes(c.at, int(before))
	} else {
		if p, err = c.open(0, true); err != nil || c.present == 0 {
			return p, nil, 0, err
		}
		if c.header.DataPageHeader.V.DefinitionLevelEncoding != format.RLE {
			return nil, nil, 0, errors.New("levels are in an encoding that is out of use; write the file anew")
		}
		if b, err = p.bytes(0, 4); err == nil {
			from = 4 + int64(le32(b))
			b, err = p.bytes(4, from-4)
		}
	}
	if err != nil {
		return nil, nil, 0, err
	}
	return p, newHybrid(b, bits.Len8(c.present)), from, nil
}

// indexes returns a function that yields a page's values from the dictionary.
func (c *chunk) indexes(p *block, from int64) (func() (span, error), error) {
	b, err := p.bytes(from, p.size-from)
	if err != nil || len(b) == 0 {
		return func() (span, error) { return span{}, errDamaged }, err
	}
	if b[0] > 32 {
		return nil, errDamaged
	}
	h := newHybrid(b[1:], int(b[0]))
	return func() (span, error) {
		i, err := h.next()
		if err != nil || i >= uint64(len(c.entries)) {
			return span{}, errDamaged
		}
		return c.entries[i], nil
	}, nil
}

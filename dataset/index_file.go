package dataset

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/batchfs/batchfs/internal/archive"
)

const (
	groupRows = 128 << 10 // rows per row group; the writer holds one group in memory
	pageBytes = 256 << 10
)

// Keys of the index's metadata.
const (
	factsKey    = "batchfs.facts"
	checksumKey = "batchfs.crc32c"
)

// indexRow is a row as users see it. Every Parquet reader supports plain and dictionary encoding
// with Snappy.
type indexRow struct {
	Path        string `parquet:"path"`
	Class       string `parquet:"class,dict"`
	Label       int32  `parquet:"label,dict"`
	Height      int32  `parquet:"height,dict"`
	Width       int32  `parquet:"width,dict"`
	Orientation int32  `parquet:"orientation,dict"`
	Format      string `parquet:"format,dict"`
	Size        int64  `parquet:"size"`
	ModTime     int64  `parquet:"mtime_ns"`
	Problem     string `parquet:"problem,dict"`
	Version     string `parquet:"version"`     // of the object of a store that is the sample
	Object      string `parquet:"object,dict"` // that holds the sample; "": the sample is a file or an object
	Offset      int64  `parquet:"offset"`      // of what is stored of it, and how long that is
	Length      int64  `parquet:"length"`
	Coding      int32  `parquet:"coding,dict"`
	From        int64  `parquet:"from"`       // where the sample begins in what that unpacks to
	Block       int64  `parquet:"block,dict"` // how long that is
	CRC         int32  `parquet:"crc"`
	PixelHeight int32  `parquet:"pixel_height,dict"` // of pixels that are stored without a header
	PixelWidth  int32  `parquet:"pixel_width,dict"`
	Sum         int32  `parquet:"sum,dict"` // what crc is
}

func (x *index) row(i int) indexRow {
	t := x.table
	row := t.row[i]
	r := indexRow{
		Path: t.path(i), Label: row.label, Height: row.height, Width: row.width, Orientation: int32(row.orient),
		Format: t.format(i), Size: row.id.Size, ModTime: row.id.ModTime,
		Problem: cmp.Or(t.problem(i, false), t.problem(i, true)),
	}
	if t.members != nil {
		m := &t.members[i]
		r.Object, r.Offset, r.Length, r.Coding, r.From, r.Block = t.objects[m.object].name, m.Offset, m.Length, int32(m.Coding), m.From, m.Block
		r.CRC, r.PixelHeight, r.PixelWidth, r.Sum = int32(m.CRC), int32(m.Height), int32(m.Width), int32(m.Sum)
	} else {
		r.Version = t.versions.get(i)
	}
	if r.Label >= 0 && int(r.Label) < len(x.classes) {
		r.Class = x.classes[r.Label]
	}
	return r
}

// writeIndex writes the index with a zero checksum.
func writeIndex(ctx context.Context, w io.Writer, x *index) error {
	facts, err := json.Marshal(x.facts)
	if err != nil {
		return err
	}
	options := []parquet.WriterOption{&parquet.WriterConfig{
		CreatedBy: "batchfs index " + indexVersion, Compression: &parquet.Snappy,
		MaxRowsPerRowGroup: groupRows, PageBufferSize: pageBytes,
		KeyValueMetadata: map[string]string{factsKey: string(facts), checksumKey: checksumZero},
	}}
	text := utf8.Valid(bytes.Join(x.Classes, []byte{0}))
	for i := range x.table.rows() {
		text = text && utf8.ValidString(x.table.path(i))
	}
	if !text {
		// Parquet's strings must be UTF-8, so these are bytes.
		options = append(options, parquet.SchemaOf(indexRow{},
			parquet.StructTag(`parquet:"path,bytes"`, "path"), parquet.StructTag(`parquet:"class,bytes,dict"`, "class")))
	}
	out := parquet.NewGenericWriter[indexRow](w, options...)
	rows := make([]indexRow, 1024)
	for i := 0; i < x.table.rows(); i += len(rows) {
		rows = rows[:min(len(rows), x.table.rows()-i)]
		for k := range rows {
			rows[k] = x.row(i + k)
		}
		if _, err := out.Write(rows); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return out.Close()
}

// expansion is how many bytes one stored byte can unpack to. Snappy copies at most 64 bytes for
// every 3 stored ones.
const expansion = 22

// readFacts returns the facts of an index of src. The counts that memory is allocated for are
// bounded by what a file of its size can hold: a row takes at least 16 bytes unpacked, its size
// and its time.
func readFacts(file *parquet.File, src *source) (x facts, err error) {
	text, _ := file.Lookup(factsKey)
	if err := json.Unmarshal([]byte(text), &x); err != nil {
		return x, err
	}
	if x.Version != indexVersion || string(x.Source) != src.identity() || (len(x.Dirs) > 0) != (src.folder() && src.remote == nil) {
		return x, errors.New("of another version, or of another dataset")
	}
	for _, o := range x.Objects {
		if err := checkName(string(o.Name)); err != nil {
			return x, err
		}
	}
	for _, d := range x.Dirs {
		if err := x.checkPath(string(d.Path)); len(d.Path) > 0 && err != nil {
			return x, err
		}
	}
	most := file.Size()*expansion + pageBytes
	rows := int64(x.Rows)
	if rows < 1 && !x.raw() || rows > min(most/16, math.MaxInt32) || x.PathBytes < 0 || x.PathBytes > most || file.NumRows() != rows {
		return x, errCounts
	}
	return x, nil
}

var errCounts = errors.New("its counts do not fit its size")

// readIndex reads an index of src.
func readIndex(ctx context.Context, f *os.File, size int64, src *source) (x *index, err error) {
	// This package wrote the file and its checksum matches, but that is no proof that its
	// content is sane.
	defer func() {
		if p := recover(); p != nil {
			x, err = nil, fmt.Errorf("damaged: %v", p)
		}
	}()
	file, err := openParquet(f, size)
	if err != nil {
		return nil, err
	}
	x = new(index)
	if x.facts, err = readFacts(file, src); err != nil {
		return nil, err
	}
	columns, err := indexColumns(file)
	if err != nil {
		return nil, err
	}
	for _, name := range x.Classes {
		x.classes = append(x.classes, string(name))
	}
	x.table = newTable(x.Rows, x.PathBytes)
	x.restoreObjects()
	err = eachRow(file, columns, func(row []parquet.Value) error {
		if x.table.rows()%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		return x.appendRow(row)
	})
	if err != nil {
		return nil, err
	}
	if x.table.rows() != x.Rows || int64(len(x.table.paths)) != x.PathBytes {
		return nil, errCounts
	}
	return x, nil
}

// indexColumns returns the columns of an indexRow, without class, in the order of its fields.
func indexColumns(file *parquet.File) (columns []*column, err error) {
	schema := parquet.SchemaOf(indexRow{})
	for _, want := range schema.Columns() {
		if want[0] == "class" {
			continue
		}
		c, err := findColumn(file, want[0])
		if err != nil {
			return nil, err
		}
		node, _ := schema.Lookup(want[0])
		if c == nil || c.leaf.MaxDefinitionLevel > 0 || c.kind() != node.Node.Type().Kind() {
			return nil, fmt.Errorf("column %q is missing, or of another type", want[0])
		}
		columns = append(columns, c)
	}
	return columns, nil
}

// restoreObjects makes the table's objects of the facts.
func (x *index) restoreObjects() {
	for _, o := range x.Objects {
		x.table.objects = append(x.table.objects, object{string(o.Name), o.Version, Identity{o.Size, o.ModTime}})
	}
	if x.table.objects != nil {
		x.table.members = make([]member, 0, x.Rows)
	}
}

// appendMember appends where row k, which was just appended, is in an object.
func (x *index) appendMember(k int, columns []parquet.Value) error {
	t := x.table
	number := -1
	if k > 0 { // most samples are in the object of the one before
		number = int(t.members[k-1].object)
	}
	if name := text(columns[0]); number < 0 || t.objects[number].name != name {
		number = slices.IndexFunc(t.objects, func(o object) bool { return o.name == name })
	}
	if number < 0 {
		return fmt.Errorf("row %d is in an object that is not listed", k)
	}
	m := member{int32(number), archive.Place{
		Offset: columns[1].Int64(), Length: columns[2].Int64(), Coding: archive.Coding(columns[3].Int32()), From: columns[4].Int64(),
		Size: t.row[k].id.Size, Block: columns[5].Int64(), CRC: columns[6].Uint32(), Height: uint16(columns[7].Int32()), Width: uint16(columns[8].Int32()), Sum: archive.Sum(columns[9].Int32()),
	}}
	if !m.Within(t.objects[number].id.Size) {
		return fmt.Errorf("row %d is not in its object", k)
	}
	t.members = append(t.members, m)
	return nil
}

// appendRow appends a row, and checks everything that the rest of the package relies on.
func (x *index) appendRow(row []parquet.Value) error {
	t := x.table
	k, path, orient := t.rows(), text(row[0]), row[4].Int32()
	format, known := formatNumber(text(row[5]))
	s := sample{
		start: int64(len(t.paths)), label: row[1].Int32(), height: row[2].Int32(), width: row[3].Int32(),
		orient: uint8(orient), format: format, id: Identity{Size: row[6].Int64(), ModTime: row[7].Int64()},
	}
	if err := x.checkPath(path); err != nil {
		return err
	}
	if k == cap(t.row) || len(t.paths)+len(path) > cap(t.paths) || !known ||
		s.label < -1 || s.height < 0 || s.width < 0 || orient < 0 || orient > 8 || s.id.Size < 0 ||
		len(x.classes) > 0 && int(s.label) >= len(x.classes) {
		return fmt.Errorf("row %d makes no sense, or there are too many", k)
	}
	t.paths, t.row = append(t.paths, path...), append(t.row, s)
	if problem := text(row[8]); problem != "" {
		t.addBad(k, reason(errors.New(problem)), false)
	}
	if t.objects != nil {
		return x.appendMember(k, row[10:])
	}
	if version := text(row[9]); version != "" {
		return t.versions.set(k, strings.Clone(version))
	}
	return nil
}

// An index carries a checksum of itself, so that damage is detected before any of its content
// is trusted. It is the CRC-32C of the file with the checksum's own digits set to zero.
const (
	checksumZero = "00000000"
	// checksumMark is what comes before the digits in the footer: the key, then in Thrift's
	// compact encoding "next field, a string of 8 bytes". No other footer value contains these
	// bytes, because control characters are escaped in all of them.
	checksumMark = checksumKey + "\x18\x08"
)

var errChecksum = errors.New("checksum does not match")

// checksum returns the digits that belong in a file, those that are there, and their offset.
func checksum(r io.ReaderAt, size int64) (want, got []byte, at int64, err error) {
	offset, length, err := footer(r, size)
	if err != nil {
		return nil, nil, 0, err
	}
	b := make([]byte, length)
	if _, err := r.ReadAt(b, offset); err != nil {
		return nil, nil, 0, err
	}
	k := bytes.LastIndex(b, []byte(checksumMark)) + len(checksumMark)
	if k < len(checksumMark) || k+len(checksumZero) > len(b) {
		return nil, nil, 0, errChecksum
	}
	at, got = offset+int64(k), b[k:k+len(checksumZero)]
	after := at + int64(len(checksumZero))
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	parts := io.MultiReader(io.NewSectionReader(r, 0, at), strings.NewReader(checksumZero), io.NewSectionReader(r, after, size-after))
	if _, err := io.CopyBuffer(h, parts, make([]byte, 256<<10)); err != nil {
		return nil, nil, 0, err
	}
	return hex.AppendEncode(nil, h.Sum(nil)), got, at, nil
}

// sealIndex writes the checksum into a file.
func sealIndex(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	digits, _, at, err := checksum(f, info.Size())
	if err != nil {
		return err
	}
	_, err = f.WriteAt(digits, at)
	return err
}

// verifyIndex checks a file against the checksum in it.
func verifyIndex(r io.ReaderAt, size int64) error {
	want, got, _, err := checksum(r, size)
	if err == nil && !bytes.Equal(got, want) {
		err = errChecksum
	}
	return err
}

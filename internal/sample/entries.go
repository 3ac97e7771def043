package sample

import (
	"encoding/binary"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/entries"
	"github.com/batchfs/batchfs/internal/fault"
)

// EntryCounts counts JPEGs by the fate of their entry points.
type EntryCounts struct {
	Used  int64 `json:"used"`
	Made  int64 `json:"made"`
	None  int64 `json:"none"`  // found to have none
	Wrong int64 `json:"wrong"` // stored, but for other bytes, and therefore not used
}

// Plus returns the sum of two counts.
func (a EntryCounts) Plus(b EntryCounts) EntryCounts {
	return EntryCounts{a.Used + b.Used, a.Made + b.Made, a.None + b.None, a.Wrong + b.Wrong}
}

// An entryDecoder decodes with entry points. *decode.Decoder is one, and documents the methods.
type entryDecoder interface {
	SetEntryPoints(rule decode.EntryRule, at []decode.EntryPoint)
	SetPart(from, to int64)
	TakeEntryPoints() (made []decode.EntryPoint, result decode.EntryResult)
}

// Entries passes stored entry points of JPEGs to a decoder, and stores those that it makes. It
// belongs to one goroutine.
type Entries struct {
	ds     *dataset.Dataset
	store  *entries.Store
	verify bool
	buf    entries.Buffer
	made   []byte

	// About the last sample that was looked up.
	sample int64 // -1: none
	seen   dataset.Identity
	allow  bool // it may be read in part
	inOne  bool // in one read
	wrong  bool // they belong to other bytes
	rule   decode.EntryRule
	at     []decode.EntryPoint
	// If to is not 0, only the header and the bytes between these offsets of its file were read.
	from, to int64
}

// NewEntries returns Entries for a store. verify compares the bytes of each file with those that
// its entry points were made from.
func NewEntries(ds *dataset.Dataset, store *entries.Store, verify bool) *Entries {
	return &Entries{ds: ds, store: store, verify: verify, sample: -1}
}

// Find looks for the entry points of sample i, a JPEG whose file had identity seen when data was
// read. It reads a file.
func (e *Entries) Find(i int64, seen dataset.Identity, data []byte) {
	e.whole()
	if !e.verify && e.sample == i && e.seen == seen {
		return
	}
	e.sample, e.seen = i, seen
	p, known := e.store.Get(e.file(i, seen), &e.buf)
	if e.wrong = known && e.verify && entries.CRC(data) != p.CRC; e.wrong {
		known = false
	}
	e.at = e.at[:0]
	for k := 0; known && k < len(p.Bytes); k += 8 {
		e.at = append(e.at, decode.EntryPoint(binary.LittleEndian.Uint64(p.Bytes[k:])))
	}
	e.rule = decode.EntryRule(e.store.Rule())
	if len(e.at) == 0 && (known || !e.store.Writes()) {
		e.rule = decode.EntryOff
	}
}

// Partial reports whether a Loader found entry points of the sample that it read last, and read
// only what is decoded from them.
func (e *Entries) Partial() bool { return e != nil && e.to > 0 }

// Found reports whether the sample of the last Find has entry points.
func (e *Entries) Found() bool { return len(e.at) > 0 }

// AllowParts says whether a Loader may read samples in part. It must be called before Find.
func (e *Entries) AllowParts(allow bool) {
	if e != nil {
		e.allow, e.inOne, e.sample = allow && !e.verify, false, -1
		e.whole()
	}
}

func (e *Entries) whole() { e.from, e.to = 0, 0 }

// allows reports whether sample i may be read in part, if it has entry points.
func (e *Entries) allows(i int64) bool {
	return e != nil && e.allow && e.ds.Format(int(i)) == decode.JPEG.String()
}

// has is Find before the file is read.
func (e *Entries) has(i int64, indexed dataset.Identity) bool {
	e.Find(i, indexed, nil)
	return e.Found()
}

// reach is the offset in the file of the last Find's sample at which its first rows end, if that
// can be told without the header; else 0. From then on, part skips the rest, however little it is.
func (e *Entries) reach(o decode.Options, height, rows, scale int) (bytes int64) {
	bytes = o.EntryReach(e.rule, e.at, height, rows, scale)
	e.inOne = bytes > 0
	return bytes
}

// part is a [dataset.Part]: the bytes for decoding a region of the last Find's sample.
func (e *Entries) part(o decode.Options, head []byte, size int64, r decode.Region, scale int) (from, to int64, ok bool) {
	e.whole()
	from, to, ok = o.EntryPart(head, size, e.rule, e.at, r, scale)
	if !ok || !e.inOne && size-(to-from) < e.ds.LeastSaved() {
		return 0, 0, false // so all of it is read
	}
	e.from, e.to = from, to
	return from, to, true
}

// Begin prepares the decoder for the sample of the last Find: to use the entry points, or to make
// them if they can be stored. End must follow the decoding.
func (e *Entries) Begin(d entryDecoder) {
	d.SetEntryPoints(e.rule, e.at)
	d.SetPart(e.from, e.to)
}

// End stores what the decoder made, unless decoding failed for a reason other than the file.
func (e *Entries) End(d entryDecoder, i int64, seen dataset.Identity, data []byte, err error) (n EntryCounts) {
	made, result := d.TakeEntryPoints()
	if e.wrong || result == decode.EntriesWrong {
		n.Wrong = 1
		e.sample = -1
		e.store.Forget(e.file(i, seen))
	}
	switch {
	case result == decode.EntriesUsed:
		n.Used = 1
	case err != nil && fault.Of(err) != fault.File:
	case result == decode.EntriesMade:
		n.Made = 1
		e.put(i, seen, data, made)
	case result == decode.EntriesNone:
		n.None = 1
		e.put(i, seen, data, nil)
	}
	return n
}

func (e *Entries) put(i int64, seen dataset.Identity, data []byte, made []decode.EntryPoint) {
	e.sample = -1
	e.made = e.made[:0]
	for _, at := range made {
		e.made = binary.LittleEndian.AppendUint64(e.made, uint64(at))
	}
	e.store.Put(e.file(i, seen), entries.Points{Bytes: e.made, CRC: entries.CRC(data)})
}

// Known reports whether the entry points of sample i's file are stored, or known not to exist.
func (e *Entries) Known(i int64, seen dataset.Identity) (has, known bool) {
	p, known := e.store.Get(e.file(i, seen), &e.buf)
	return known && len(p.Bytes) > 0, known
}

func (e *Entries) file(i int64, seen dataset.Identity) entries.File {
	return entries.File{Path: e.ds.Path(int(i)), Size: seen.Size, ModTime: seen.ModTime}
}

// MakeEntries makes the entry points of an image that Read returned for sample i. An error is
// that of Decode.
func (r *Reader) MakeEntries(i int, img Image, e *Entries) (EntryCounts, error) {
	e.Find(int64(i), img.seen, img.Data)
	e.Begin(r.decoder)
	var pixel [3]byte // all of the file is read, whatever is decoded
	to := decode.Image{Pix: pixel[:], Stride: len(pixel), Height: 1, Width: 1}
	err := r.decoder.DecodeRegion(to, img.Data, img.header, decode.Region{W: 1, H: 1}, 1)
	return e.End(r.decoder, int64(i), img.seen, img.Data, err), err
}

package decode

// An EntryPoint is a place in a JPEG's entropy-coded data where decoding can start: bits 0 to 21
// are its distance in bits from the previous one, or from the file's beginning, and from bit 22 on
// there are three DC predictors of 14 bits each, of Y, Cb and Cr. A bit in a byte after which a zero
// is stuffed counts like any other; the position is never in the stuffed zero.
type EntryPoint uint64

// An EntryRule says where an image has entry points: EntryRows, EntryOff, or every n MCUs.
type EntryRule int32

const (
	EntryOff  EntryRule = 0
	EntryRows EntryRule = -1 // at the beginning of each row of MCUs but the first
)

// An EntryResult says what became of the entry points of an image.
type EntryResult uint8

const (
	EntriesUnused EntryResult = iota // they were neither asked for nor needed
	EntriesUsed
	EntriesMade  // the whole file was read without any objection
	EntriesNone  // this file can have none: it is too small, damaged, progressive, or odd
	EntriesWrong // they are not of this file; it was decoded without them
)

// SetEntryPoints says what to do with the entry points of the next image that is decoded, a JPEG:
// to use the given ones, which are those of the rule, or, if there are none, to make them. Making
// them means reading the file to its end whatever region is decoded, which changes neither the
// pixels nor the verdict. at must not change until then.
func (d *Decoder) SetEntryPoints(rule EntryRule, at []EntryPoint) { d.kept.setEntryPoints(rule, at) }

// TakeEntryPoints returns what became of them. Those that were made are in the decoder's
// memory, and valid until the next image is decoded or the decoder is trimmed.
func (d *Decoder) TakeEntryPoints() (made []EntryPoint, result EntryResult) {
	return d.kept.takeEntryPoints()
}

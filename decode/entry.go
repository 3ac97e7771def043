package decode

// An EntryPoint is a place in a JPEG's entropy-coded data where decoding can start: bits 0 to 21
// are its distance in bits from the previous one, or from the file's beginning, and from bit 22 on
// there are three DC predictors of 14 bits each, of Y, Cb and Cr. A byte before a stuffed zero
// counts like any other; the position is never in the stuffed zero.
type EntryPoint uint64

// An EntryRule says where an image has entry points: EntryRows, EntryOff, or every n MCUs.
type EntryRule int32

const (
	EntryOff  EntryRule = 0
	EntryRows EntryRule = -1 // at the beginning of each row of MCUs but the first
)

// An EntryResult is the outcome for the entry points of an image.
type EntryResult uint8

const (
	EntriesUnused EntryResult = iota // neither requested nor needed
	EntriesUsed
	EntriesMade  // the whole file was read without any objection
	EntriesNone  // this file cannot have any: it is too small, damaged, progressive, or odd
	EntriesWrong // they belong to another file; this one was decoded without them
)

// SetEntryPoints says what to do with the entry points of the next image, a JPEG: use the given
// ones, which follow the rule, or, if there are none, make them. Making them reads the file to its
// end whatever region is decoded, which changes neither the pixels nor the verdict. at must not
// change before the image is decoded.
func (d *Decoder) SetEntryPoints(rule EntryRule, at []EntryPoint) { d.state.setEntryPoints(rule, at) }

// EntryPart returns the byte range of a file, besides the header, that is read to decode a region
// of its stored image from entry points, at a scale of 1/scale. head is the beginning of the file,
// which has size bytes. ok is false if the header is not complete, or if this image cannot be
// decoded from entry points.
func (o Options) EntryPart(head []byte, size int64, rule EntryRule, at []EntryPoint, r Region, scale int) (from, to int64, ok bool) {
	h, err := ReadHeader(head, false)
	if err != nil || h.Format != JPEG || !h.scales(scale) || rule == EntryOff || len(at) == 0 || chosen(o.Kernel) < Portable {
		return 0, 0, false
	}
	if !r.in(h.At(scale)) {
		return 0, 0, false
	}
	from, to = entryPart(head, size, rule, at, view{Header: h, Region: r, Scale: scale, Color: o.Color})
	return from, to, from < to
}

// EntryReach estimates the offset up to which a file is read to decode the first rows of its stored
// image, of a height, from entry points. It needs no header: the number of entry points tells the
// height of a row of MCUs. rows are at a scale of 1/scale, the height is not. 0 means that the
// offset is unknown, or is the end of the file, or that these options use no entry points.
func (o Options) EntryReach(rule EntryRule, at []EntryPoint, height, rows, scale int) int64 {
	const (
		above    = 2 // rows beyond the wanted ones that upsampling needs
		distance = 1<<22 - 1
	)
	if rule != EntryRows || chosen(o.Kernel) < Portable {
		return 0
	}
	for mcu := 8; mcu <= 16; mcu *= 2 {
		if (height+mcu-1)/mcu != len(at)+1 {
			continue
		}
		last, bits := (min((rows+above)*scale, height)-1)/mcu, int64(0)
		if last >= len(at) {
			return 0
		}
		for _, p := range at[:last+1] {
			bits += int64(p & distance)
		}
		return bits/8 + 2
	}
	return 0
}

// SetPart says, after SetEntryPoints, that only the part of the next image is there that EntryPart
// returned for these entry points. If that does not suffice, the error is ErrPart.
func (d *Decoder) SetPart(from, to int64) { d.state.from, d.state.to = from, to }

// TakeEntryPoints returns the outcome. Entry points that were made are in the decoder's memory, and
// valid until the next image is decoded or the decoder is trimmed.
func (d *Decoder) TakeEntryPoints() (made []EntryPoint, result EntryResult) {
	return d.state.takeEntryPoints()
}

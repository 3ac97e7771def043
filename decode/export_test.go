package decode

// Paired reports whether the last DecodePair decoded this and the other image in one call.
func (d *Decoder) Paired() bool { return d.paired }

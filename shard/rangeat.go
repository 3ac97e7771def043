package shard

// RangeAt is the range [lo, hi) that contains a position; 0, 0 if there is no such position.
func (p *Plan) RangeAt(position int64) (lo, hi int64) {
	if position < 0 || position >= p.samples {
		return 0, 0
	}
	r := p.rangeOf(position)
	return p.start(r), p.start(r + 1)
}

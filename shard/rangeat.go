package shard

// RangeAt is the range [lo, hi) of the shard that holds a position.
func (p *Plan) RangeAt(position int64) (lo, hi int64) {
	r := p.rangeOf(position)
	return p.start(r), p.start(r + 1)
}

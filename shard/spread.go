package shard

// spread is Bresenham's: an even choice of some places among of, 0 < chosen < of.
// Place p is chosen iff floor((p+1)·chosen/of) > floor(p·chosen/of).
type spread struct {
	chosen, of uint64
}

// at says whether place p is chosen, and its rank among its like.
func (s spread) at(p uint64) (chosen bool, rank uint64) {
	before, rest := mulDiv(p, s.chosen, s.of)
	if rest+s.chosen >= s.of {
		return true, before
	}
	return false, p - before
}

// chosenAt is the place of the chosen one of a rank: the last of those with rank
// chosen ones before it.
func (s spread) chosenAt(rank uint64) uint64 {
	q, rest := mulDiv(rank+1, s.of, s.chosen)
	if rest == 0 {
		q--
	}
	return q
}

// otherAt is the place of the other one of a rank. There are
// ceil(p·(of-chosen)/of) others before place p.
func (s spread) otherAt(rank uint64) uint64 {
	q, _ := mulDiv(rank, s.of, s.of-s.chosen)
	return q
}

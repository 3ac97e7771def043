package shard

// spread is Bresenham's algorithm: it chooses some places evenly among of, 0 < chosen < of.
// Place p is chosen iff floor((p+1)·chosen/of) > floor(p·chosen/of).
type spread struct {
	chosen, of uint64
}

// at says whether place p is chosen, and its rank among the places of its kind.
func (s spread) at(p uint64) (chosen bool, rank uint64) {
	before, rest := mulDiv(p, s.chosen, s.of)
	if rest+s.chosen >= s.of {
		return true, before
	}
	return false, p - before
}

// chosenAt is the place of the chosen one of a rank: the last place with rank chosen ones
// before it.
func (s spread) chosenAt(rank uint64) uint64 {
	q, rest := mulDiv(rank+1, s.of, s.chosen)
	if rest == 0 {
		q--
	}
	return q
}

// otherAt is the place of the unchosen one of a rank. There are ceil(p·(of-chosen)/of) unchosen
// places before place p.
func (s spread) otherAt(rank uint64) uint64 {
	q, _ := mulDiv(rank, s.of, s.of-s.chosen)
	return q
}

package shard

import "slices"

// Cost is a kind of sample, by the work of getting its pixels. A shuffle gives every batch the same
// mix of costs.
type Cost uint8

const (
	Encoded Cost = iota // mostly decoding, as for JPEG and PNG
	Packed              // somewhat more to read, much less to decode
	Raw                 // plain pixels: much to read, nothing to decode

	NumCosts = 3
)

// String is the word used in documents.
func (c Cost) String() string {
	return [NumCosts]string{Encoded: "encoded", Packed: "packed", Raw: "raw"}[c]
}

// Costs says which samples of a dataset have which cost, and finds the i-th sample of a cost. It
// takes about n/6 bytes for two costs, at most twice that for three, and next to nothing for one.
// It is immutable. A nil Costs means that all samples are encoded.
type Costs struct {
	counts [NumCosts]int64
	// sets divide the samples. Each set numbers the samples that are in no later set, and marks
	// those of its cost. There is no set for a cost without samples, nor for rest, the cost of all
	// samples that are in no set.
	sets [NumCosts]*subset
	rest Cost
}

// NewCosts calls cost once for every sample, in order.
func NewCosts(n int64, cost func(id int64) Cost) *Costs {
	c, left := &Costs{}, [NumCosts]int64{} // left counts the samples that each set numbers
	var words [NumCosts][]uint64
	for id := range n {
		of := cost(id)
		if of != Encoded {
			if words[of] == nil {
				words[of] = make([]uint64, wordsOf(n))
			}
			words[of][left[of]/64] |= 1 << (left[of] % 64)
		}
		c.counts[of]++
		for at := of; at < NumCosts; at++ {
			left[at]++
		}
	}
	for at, count := range c.counts {
		switch {
		case count == 0:
		case count == left[at]:
			c.rest = Cost(at)
		default:
			c.sets[at] = newSubset(words[at][:wordsOf(left[at])])
		}
	}
	return c
}

// Len is the number of samples in the dataset.
func (c *Costs) Len() (n int64) {
	for _, count := range c.counts {
		n += count
	}
	return n
}

// Count is the number of samples of a cost.
func (c *Costs) Count(cost Cost) int64 { return c.counts[cost] }

// Present lists the costs that at least one sample has.
func (c *Costs) Present() (present []Cost) {
	if c == nil {
		return []Cost{Encoded}
	}
	for cost, count := range c.counts {
		if count > 0 {
			present = append(present, Cost(cost))
		}
	}
	return present
}

// Of is the cost of a sample, which must exist.
func (c *Costs) Of(id int64) Cost {
	if c == nil {
		return Encoded
	}
	for cost, set := range slices.Backward(c.sets[:]) {
		if set == nil {
			continue
		}
		if set.contains(id) {
			return Cost(cost)
		}
		id -= set.before(id)
	}
	return c.rest
}

// before counts the samples of each cost before a sample, 0 <= id <= the number of samples.
func (c *Costs) before(id int64) (counts [NumCosts]int64) {
	if c == nil {
		return [NumCosts]int64{id}
	}
	for cost, set := range slices.Backward(c.sets[:]) {
		if set != nil {
			counts[cost] = set.before(id)
			id -= counts[cost]
		}
	}
	counts[c.rest] = id
	return counts
}

// find is the rank-th sample of a cost, 0 <= rank < their number.
func (c *Costs) find(rank int64, cost Cost) int64 {
	if c == nil {
		return rank
	}
	for at := cost; at < NumCosts; at++ {
		if set := c.sets[at]; set != nil {
			rank = set.find(rank, at == cost)
		}
	}
	return rank
}

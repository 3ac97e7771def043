package gen

import "slices"

// huffmanLengths gives each symbol with a count the length of its code, at most limit bits, such
// that the codes fill the whole code space. A single symbol gets length 1. The lengths are
// optimal unless limit had to be enforced.
func huffmanLengths(lengths []uint8, counts []int, limit int) {
	clear(lengths)
	var used []int
	for s, n := range counts {
		if n > 0 {
			used = append(used, s)
		}
	}
	if len(used) == 0 {
		return
	}
	// Rare symbols first; ties are ordered by symbol, so that the result is unique.
	slices.SortStableFunc(used, func(a, b int) int { return counts[a] - counts[b] })
	perLength := limitLengths(treeLengths(used, counts), limit)
	at := 0
	for n := len(perLength) - 1; n > 0; n-- {
		for range perLength[n] {
			lengths[used[at]] = uint8(n)
			at++
		}
	}
}

// treeLengths builds the tree of symbols sorted by count, with van Leeuwen's two queues, and
// returns the number of codes of each length.
func treeLengths(used, counts []int) []int {
	n := len(used)
	if n == 1 {
		return []int{0, 1}
	}
	weight := make([]int, 2*n-1)
	parent := make([]int, 2*n-1)
	for i, s := range used {
		weight[i] = counts[s]
	}
	leaf, inner := 0, n
	for next := n; next < 2*n-1; next++ {
		for range 2 {
			pick := inner
			if leaf < n && (inner >= next || weight[leaf] <= weight[inner]) {
				pick = leaf
				leaf++
			} else {
				inner++
			}
			weight[next] += weight[pick]
			parent[pick] = next
		}
	}
	depth := make([]int, 2*n-1)
	perLength := make([]int, n+1)
	for i := 2*n - 3; i >= 0; i-- {
		depth[i] = depth[parent[i]] + 1
		if i < n {
			perLength[depth[i]]++
		}
	}
	return perLength
}

// limitLengths shortens codes longer than limit, two at a time, and makes room by lengthening a
// shorter one; the code space stays filled (annex K.3 of the JPEG standard).
func limitLengths(perLength []int, limit int) []int {
	for n := len(perLength) - 1; n > limit; n-- {
		for perLength[n] > 0 {
			shorter := n - 2
			for perLength[shorter] == 0 {
				shorter--
			}
			perLength[n] -= 2
			perLength[n-1]++
			perLength[shorter+1] += 2
			perLength[shorter]--
		}
	}
	return perLength[:min(len(perLength), limit+1)]
}

// canonicalCodes numbers the codes: shorter before longer, then by symbol.
func canonicalCodes(lengths []uint8) []uint16 {
	codes := make([]uint16, len(lengths))
	next := uint16(0)
	for n := uint8(1); n <= 16; n++ {
		for s, l := range lengths {
			if l == n {
				codes[s] = next
				next++
			}
		}
		next <<= 1
	}
	return codes
}

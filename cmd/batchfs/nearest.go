package main

// nearest returns the word closest to a mistyped one, or "" if none is close. Of equally
// close words it takes the first.
func nearest(typed string, words []string) string {
	best, found := 1+len(typed)/3, ""
	for _, w := range words {
		d := editDistance(typed, w)
		if d < best || d == best && (found == "" || w < found) {
			best, found = d, w
		}
	}
	return found
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbors that
// turn a into b.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

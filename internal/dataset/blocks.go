package dataset

// Blocks returns the number of samples in each object, in the dataset's order. It is nil if some
// samples are files of their own, or if the samples of an object are not adjacent, as happens when
// classes are spread over several archives.
func (d *Dataset) Blocks() (sizes []int64) {
	seen := make([]bool, len(d.table.objects))
	for i := range d.table.members {
		object := d.table.members[i].object
		if object < 0 {
			return nil
		}
		if i > 0 && object == d.table.members[i-1].object {
			sizes[len(sizes)-1]++
			continue
		}
		if seen[object] {
			return nil
		}
		seen[object] = true
		sizes = append(sizes, 1)
	}
	return sizes
}

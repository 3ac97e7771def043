package dataset

// Blocks are the sizes, in samples, of the objects that hold the dataset, in its order; nil if
// samples are files of their own, some of them at least, or those of an object do not follow one
// another, as where classes are spread over several archives.
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

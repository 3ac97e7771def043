package dataset

// Accept replaces the recorded identity of sample i with id, in this process only. It is for a
// file that was corrupt and has since been repaired. The caller has checked that the new file
// is the image that the index describes.
func (d *Dataset) Accept(i int, id Identity) {
	d.learning.Lock()
	defer d.learning.Unlock()
	d.table.setIdentity(i, id)
}

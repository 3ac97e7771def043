package fusefs

import (
	"fmt"
	"strconv"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/batchfs/batchfs/layout"
)

// xattrs are the extended attributes of every batch file. All describe the batch's tensor:
// in the file's own layout if the file holds the tensor, otherwise in the mount's. They are
// formatted as in the batch's .json, except the shape: "32,375,500,3".
var xattrs = []struct {
	name  string
	value func(s layout.Spec, valid int) string
}{
	{"user.batchfs.shape", func(s layout.Spec, _ int) string {
		d := s.Shape()
		return fmt.Sprintf("%d,%d,%d,%d", d[0], d[1], d[2], d[3])
	}},
	{"user.batchfs.dtype", func(s layout.Spec, _ int) string { return s.DType.String() }},
	{"user.batchfs.layout", func(s layout.Spec, _ int) string { return s.Order.String() }},
	{"user.batchfs.valid", func(_ layout.Spec, valid int) string { return strconv.Itoa(valid) }},
}

// GetXAttr reads an attribute.
func (f *filesystem) GetXAttr(_ <-chan struct{}, header *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	n, ok := f.tree.node(header.NodeId)
	if !ok {
		return 0, fuse.ENOENT
	}
	for _, x := range xattrs {
		if n.kind == batchFile && x.name == name {
			spec := f.catalog.Spec(n.key)
			return put(dest, x.value(spec.In(n.form.OrderOf(spec.Order)), f.catalog.Valid(n.key)))
		}
	}
	return 0, fuse.ENOATTR
}

// ListXAttr lists the names of a node's attributes.
func (f *filesystem) ListXAttr(_ <-chan struct{}, header *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	n, ok := f.tree.node(header.NodeId)
	if !ok {
		return 0, fuse.ENOENT
	}
	var names string
	for _, x := range xattrs {
		if n.kind == batchFile {
			names += x.name + "\x00"
		}
	}
	return put(dest, names)
}

// put copies a value into the caller's buffer. If that has no room at all, go-fuse turns
// ERANGE into the length, as requested.
func put(dest []byte, value string) (uint32, fuse.Status) {
	if len(dest) < len(value) {
		return uint32(len(value)), fuse.ERANGE
	}
	return uint32(copy(dest, value)), fuse.OK
}

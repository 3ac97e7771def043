package convert

import (
	"fmt"
	"io/fs"
	"math"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
)

// plan determines the work and the space it takes.
func (c *conversion) plan() (Plan, error) {
	p := c.report.Plan
	var disk unix.Statfs_t
	if err := unix.Statfs(p.Staging, &disk); err != nil {
		return p, &fs.PathError{Op: "statfs", Path: p.Staging, Err: err}
	}
	how, err := c.tryKeeping(&p)
	if err != nil {
		return p, err
	}
	block, files := max(1, int64(disk.Frsize)), int64(0)
	need := func(bytes int64) {
		p.NeedBytes += (bytes + block - 1) / block * block
		files++
	}
	if !p.Resumed { // else they are there already
		for range c.dirs {
			need(1)
		}
	}
	for i, k := range c.kinds {
		size := c.ds.Stat(i).Size
		switch {
		case k == chosen:
			size = c.o.FileBytes(c.ds.Size(i, c.o.IgnoreOrientation))
			p.RawBytes += size
		case how == &p.Linked:
			p.Linked++
			continue
		case how == &p.Cloned:
			p.Cloned++
			size = 0
		default:
			p.Copied++
			p.CopyBytes += size
		}
		if _, there := c.found(i); !there {
			need(size)
		}
	}
	p.FreeBytes = int64(disk.Bavail) * block
	if disk.Blocks == 0 { // it is not reported
		p.FreeBytes = math.MaxInt64
	}
	switch free := int64(disk.Ffree); {
	case disk.Files > 0 && files > free: // else inodes are created on demand
		err = fmt.Errorf("%w in %s: %d files are too many, %d fit", ErrSpace, p.Staging, files, free)
	case p.NeedBytes > p.FreeBytes:
		err = fmt.Errorf("%w in %s: %d bytes are needed, %d are free", ErrSpace, p.Staging, p.NeedBytes, p.FreeBytes)
	}
	return p, err
}

// tryKeeping finds out with one readable sample how files can be kept. If the dataset spans
// devices, others may be kept in another way.
func (c *conversion) tryKeeping(p *Plan) (how *int, err error) {
	for i, k := range c.kinds {
		if k == unreadable {
			continue
		}
		how, err := c.tree.keep(temporary(i), c.names.source(i), p)
		if err == nil {
			return how, c.tree.root.Remove(temporary(i))
		}
		if !dataset.OfFile(err) {
			return nil, err
		}
	}
	return &p.Linked, nil
}

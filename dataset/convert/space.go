package convert

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset"
)

// space is what the work takes of a file system, or what is free there.
type space struct{ block, bytes, inodes int64 }

func (s *space) add(bytes int64) {
	s.bytes += (bytes + s.block - 1) / s.block * s.block
	s.inodes++
}

// plan determines the work and the space it takes.
func (c *conversion) plan() (Plan, error) {
	p := c.report.Plan
	free, err := freeSpace(p.Staging)
	if err != nil {
		return p, err
	}
	how, err := c.tryKeeping()
	if err != nil {
		return p, err
	}
	need, dirs := space{block: free.block}, map[string]bool{}
	for i, k := range c.kinds {
		if dir := path.Dir(c.names.kept(i)); !dirs[dir] {
			dirs[dir] = true
			need.add(1)
		}
		switch size := c.ds.Stat(i).Size; {
		case k == chosen:
			size = c.o.FileBytes(c.ds.Size(i, c.o.IgnoreOrientation))
			p.RawBytes += size
			need.add(size)
		case how == linked:
			p.Linked++
		case how == cloned:
			p.Cloned++
			need.inodes++
		default:
			p.Copied++
			p.CopyBytes += size
			need.add(size)
		}
	}
	if p.Resumed {
		if err := need.subtractTree(p.Staging); err != nil {
			return p, err
		}
	}
	p.NeedBytes, p.FreeBytes = max(need.bytes, 0), free.bytes
	switch {
	case need.inodes > free.inodes:
		err = fmt.Errorf("%w in %s: %d files are too many, %d fit", ErrSpace, p.Staging, need.inodes, free.inodes)
	case p.NeedBytes > p.FreeBytes:
		err = fmt.Errorf("%w in %s: %d bytes are needed, %d are free", ErrSpace, p.Staging, p.NeedBytes, p.FreeBytes)
	}
	return p, err
}

// tryKeeping finds out with one readable sample how files can be kept. If the dataset spans
// devices, others may be kept in another way.
func (c *conversion) tryKeeping() (kept, error) {
	for i, k := range c.kinds {
		if k == unreadable {
			continue
		}
		how, err := c.stage.keep(temporary(i), c.names.source(i))
		if err == nil {
			return how, c.stage.remove(temporary(i))
		}
		if !dataset.OfFile(err) {
			return 0, err
		}
	}
	return linked, nil
}

func freeSpace(dir string) (space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return space{}, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	free := space{max(1, int64(st.Frsize)), math.MaxInt64, math.MaxInt64}
	if st.Blocks > 0 { // else it is not reported
		free.bytes = int64(st.Bavail) * free.block
	}
	if st.Files > 0 { // else inodes are created on demand
		free.inodes = int64(st.Ffree)
	}
	return free, nil
}

// subtractTree subtracts what an unfinished tree already takes; hard links take nothing.
func (s *space) subtractTree(dir string) error {
	return filepath.Walk(dir, func(_ string, info fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if st := info.Sys().(*syscall.Stat_t); info.IsDir() || st.Nlink == 1 {
			s.bytes -= st.Blocks * 512
			s.inodes--
		}
		return nil
	})
}

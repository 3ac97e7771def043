package convert

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// plan determines the work and the space it takes.
func (c *conversion) plan() (Plan, error) {
	p := c.report.Plan
	p.Samples, p.AlreadyRaw = c.ds.Len(), int(c.chooser.raw)
	p.Raw = p.AlreadyRaw
	if c.tree.manifest == "" {
		p.Moved = c.tree.moved
	}
	disk, err := c.disk()
	if err != nil {
		return p, err
	}
	inodes := int64(0)
	for i := range c.ds.Len() {
		if c.wanted[i] {
			n := c.o.FileBytes(c.ds.Size(i, c.o.IgnoreOrientation))
			p.Raw++
			p.RawBytes += n
			p.NeedBytes += disk.blocks(n)
			inodes++
		}
	}
	dirs, err := c.planKept(&p, disk)
	if err != nil {
		return p, err
	}
	p.NeedBytes += int64(dirs) * disk.block
	inodes += int64(p.Cloned + p.Copied + dirs)
	if p.Resumed {
		bytes, files, err := occupied(p.Staging)
		if err != nil {
			return p, err
		}
		p.NeedBytes, inodes = max(0, p.NeedBytes-bytes), max(0, inodes-files)
	}
	p.FreeBytes = disk.free
	if inodes > disk.inodes {
		return p, fmt.Errorf("%w in %s: %d files are too many, %d fit", ErrSpace, p.Staging, inodes, disk.inodes)
	}
	if p.NeedBytes > p.FreeBytes {
		return p, fmt.Errorf("%w in %s: %d bytes are needed, %d are free", ErrSpace, p.Staging, p.NeedBytes, p.FreeBytes)
	}
	return p, nil
}

// planKept adds how the other samples are kept, and counts directories. All files on one device
// are kept the same way. The device is that of the sample's directory: links of single files to
// other devices are not examined.
func (c *conversion) planKept(p *Plan, disk disk) (dirs int, err error) {
	fate := map[uint64]kept{} // by device
	for dir, samples := range c.tree.directories() {
		dirs++
		var device uint64
		known := false
		for _, i := range samples {
			if c.wanted[i] {
				continue
			}
			if !known || c.tree.manifest != "" {
				device, known = c.device(dir, int(i)), true
			}
			how, ok := fate[device]
			if !ok {
				if how, err = c.files.probe(c.ds.Path(c.readable(samples, i))); err != nil {
					return dirs, err
				}
				fate[device] = how
			}
			p.addKept(how, c.ds.Stat(int(i)).Size, disk)
		}
	}
	return dirs, nil
}

// readable returns a readable sample of the directory, preferably i, or else i. Unreadable ones
// may not be files at all.
func (c *conversion) readable(samples []int32, i int32) int {
	for _, k := range append([]int32{i}, samples...) {
		if c.survey.kinds[k] != unreadable {
			return int(k)
		}
	}
	return int(i)
}

func (p *Plan) addKept(how kept, size int64, disk disk) {
	switch how {
	case linked:
		p.Linked++
	case cloned:
		p.Cloned++
	default:
		p.Copied++
		p.CopyBytes += size
		p.NeedBytes += disk.blocks(size)
	}
}

// device is the device of the directory that holds a sample.
func (c *conversion) device(dir string, i int) uint64 {
	if c.tree.manifest != "" {
		dir = path.Dir(c.ds.Path(i))
	}
	var st unix.Stat_t
	if unix.Fstatat(c.files.from(), dir, &st, 0) != nil {
		return math.MaxUint64
	}
	return uint64(st.Dev)
}

// probe finds out by trial how a file of the source can be kept.
func (f *files) probe(source string) (kept, error) {
	const name = scratchName + "/probe"
	there, err := f.link(name, source)
	if err != nil {
		return 0, err
	}
	how := copied
	if there {
		how = linked
	} else if f.clones(name, source) {
		how = cloned
	}
	return how, f.remove(name)
}

func (f *files) clones(name, source string) bool {
	in, err := openAt(f.from(), source, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer unix.Close(in)
	out, err := openAt(f.to(), name, unix.O_WRONLY|unix.O_CREAT, 0o600)
	if err != nil {
		return false
	}
	defer unix.Close(out)
	return unix.IoctlFileClone(out, in) == nil
}

// disk describes the space on a file system.
type disk struct {
	block  int64 // bytes; the unit of allocation
	free   int64 // bytes
	inodes int64
}

func (c *conversion) disk() (disk, error) {
	var st unix.Statfs_t
	if err := ignoringEINTR(func() error { return unix.Fstatfs(c.files.to(), &st) }); err != nil {
		return disk{}, &fs.PathError{Op: "statfs", Path: c.stage.staging, Err: err}
	}
	d := disk{block: max(1, int64(st.Frsize)), free: int64(st.Bavail) * max(1, int64(st.Frsize)), inodes: int64(st.Ffree)}
	if st.Blocks == 0 { // not reported
		d.free = math.MaxInt64
	}
	if st.Files == 0 { // inodes are created on demand
		d.inodes = math.MaxInt64
	}
	return d, nil
}

func (d disk) blocks(n int64) int64 { return (n + d.block - 1) / d.block * d.block }

// occupied is what an unfinished tree already takes; hard links take nothing.
func occupied(dir string) (bytes, inodes int64, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &fs.PathError{Op: "stat", Path: path, Err: err}
		}
		if e.IsDir() || st.Nlink == 1 {
			bytes += st.Blocks * 512
			inodes++
		}
		return nil
	})
	return bytes, inodes, err
}

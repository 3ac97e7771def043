package stress

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/layout"
)

// A deed is something that a client, or the saboteur of a round, may do next.
type deed[T any] struct {
	name   string
	weight int // relative frequency
	do     func(T) error
}

func choose[T any](random *rand.Rand, deeds []deed[T]) deed[T] {
	sum := 0
	for _, d := range deeds {
		sum += d.weight
	}
	n := random.IntN(sum)
	for _, d := range deeds {
		if n -= d.weight; n < 0 {
			return d
		}
	}
	panic("unreachable")
}

var clientDeeds = []deed[*client]{
	{"read", 20, (*client).read},
	{"read at random", 8, (*client).readAround},
	{"readv", 4, (*client).readVector},
	{"read directly", 3, (*client).readDirect},
	{"map", 15, (*client).mapped},
	{"map and move", 4, (*client).remap},
	{"hold", 6, (*client).keep},
	{"dup", 3, (*client).dup},
	{"send", 4, (*client).send},
	{"splice", 4, (*client).splice},
	{"pass on", 4, (*client).passOn},
	{"exec", 1, (*client).exec},
	{"look around", 6, (*client).lookAround},
	{"small forms", 8, (*client).smallForms},
	{"open what is not there", 2, (*client).strange},
	{"be interrupted", 5, (*client).interrupted},
	{"open many", 3, (*client).openMany},
	{"die while opening", 1, (*client).die},
}

// with opens a batch, calls do and closes it.
func (c *client) with(x *expected, form layout.Form, flags int, do func(h *holding) error) error {
	h, err := c.open(x, form, flags)
	if h == nil {
		return err
	}
	defer h.close()
	return do(h)
}

// withNext does so with the next batch.
func (c *client) withNext(flags int, do func(h *holding) error) error {
	return c.with(c.next(), c.form(), flags, do)
}

// part is a random range of a file.
func (c *client) part(h *holding) (offset, n int) {
	offset = c.random.IntN(h.size)
	return offset, 1 + c.random.IntN(h.size-offset)
}

func (h *holding) pread(p []byte, offset int64) (int, error) { return unix.Pread(h.fd, p, offset) }

// read reads a file to its end in random-sized pieces.
func (c *client) read() error {
	most := pick(c.random, 512, 4096, 65536, 1<<20)
	return c.withNext(0, func(h *holding) error {
		return c.fill(h, 0, h.size+1, "read", func(p []byte, _ int64) (int, error) { return unix.Read(h.fd, p[:min(len(p), most)]) })
	})
}

func (c *client) readAround() error {
	return c.withNext(0, func(h *holding) error {
		for range 8 {
			offset, n := c.part(h)
			if err := c.fill(h, offset, n, "pread", h.pread); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *client) readVector() error {
	return c.withNext(0, func(h *holding) error {
		offset, n := c.part(h)
		cut := c.random.IntN(n + 1)
		return c.fill(h, offset, n, "preadv", func(p []byte, offset int64) (int, error) {
			cut := min(cut, len(p))
			return unix.Preadv(h.fd, [][]byte{p[:cut], p[cut:]}, offset)
		})
	})
}

// readDirect reads page-aligned with O_DIRECT.
func (c *client) readDirect() error {
	return c.withNext(unix.O_DIRECT, func(h *holding) error {
		room := (h.size + 2*4096) &^ 4095
		m, err := unix.Mmap(-1, 0, room, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		defer unix.Munmap(m)
		return c.fill(h, 0, h.size, "direct read", func(p []byte, offset int64) (int, error) {
			if offset%4096 != 0 {
				return h.pread(p, offset)
			}
			n, err := unix.Pread(h.fd, m, offset)
			return copy(p, m[:max(n, 0)]), err
		})
	})
}

// mapNext opens the next batch and maps it, or only its beginning. It returns nil for a failure
// that is allowed.
func (c *client) mapNext(form layout.Form, whole bool) (*holding, error) {
	h, err := c.open(c.next(), form, 0)
	if h == nil {
		return nil, err
	}
	length := h.size
	if !whole {
		length = 1 + c.random.IntN(h.size)
	}
	flags := pick(c.random, unix.MAP_SHARED, unix.MAP_PRIVATE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if h.mapping, err = unix.Mmap(h.fd, 0, length, unix.PROT_READ, flags); err == nil {
		return h, nil
	}
	h.close()
	if err == unix.ENODEV && !c.Settings.passthrough() || c.excused(h) {
		return nil, nil
	}
	return nil, found("mmap of %s.%s: %v", h.x.Key, h.form, err)
}

// mapped maps a file, closes it, verifies the mapping, and may keep it.
func (c *client) mapped() error {
	h, err := c.mapNext(c.form(), true)
	if h == nil {
		return err
	}
	if chance(c.random, 0.7) {
		h.close()
	}
	offset, n := c.part(h)
	if err := c.look(h, offset, offset+n, "a mapping"); err != nil {
		return err
	}
	if chance(c.random, 0.4) {
		c.hold(h)
		return nil
	}
	defer h.release()
	return c.look(h, 0, h.size, "a whole mapping")
}

// remap grows and moves a mapping.
func (c *client) remap() error {
	h, err := c.mapNext(c.form(), false)
	if h == nil {
		return err
	}
	h.close()
	m, err := unix.Mremap(h.mapping, h.size, unix.MREMAP_MAYMOVE)
	if err != nil {
		return fmt.Errorf("mremap: %w", err)
	}
	h.mapping = m
	c.hold(h)
	return c.look(h, 0, h.size, "a mapping that was moved")
}

func (c *client) keep() error {
	h, err := c.open(c.next(), c.form(), 0)
	if h != nil {
		c.hold(h)
	}
	return err
}

func (c *client) dup() error {
	return c.withNext(0, func(h *holding) error {
		fd, err := unix.FcntlInt(uintptr(h.fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		_ = unix.Close(h.fd)
		h.fd = fd
		return c.fill(h, 0, h.size, "read of a duplicate", h.pread)
	})
}

// lookAround queries metadata that opening a batch does not return.
func (c *client) lookAround() error {
	x, form := c.next(), c.form()
	before := c.weather.now()
	err := c.metadata(x, form)
	if err != nil && c.weather.since(before, adrift) {
		return nil
	}
	return err
}

func (c *client) metadata(x *expected, form layout.Form) error {
	path := c.path(x.Key, form)
	info, err := os.Stat(path)
	if err != nil {
		return found("stat: %v", err)
	}
	if want, err := os.Stat(c.oracle.file(x.Key, form, -1)); err == nil && want.Size() != info.Size() {
		return found("stat: %s is %d bytes, not %d", path, info.Size(), want.Size())
	}
	value := make([]byte, 100)
	n, err := unix.Getxattr(path, "user.batchfs.dtype", value)
	if err != nil || string(value[:n]) != c.Settings.Catalog.DType.String() {
		return found("getxattr: %s is of type %q: %v", path, value[:max(n, 0)], err)
	}
	names, err := os.ReadDir(filepath.Dir(path))
	if batches := c.oracle.batches(x.Key.Shard, x.Key.Epoch); err != nil || len(names) != 3*batches+1 {
		return found("readdir: %s has %d entries, not 3 for each of %d batches and epoch.json: %v", filepath.Dir(path), len(names), batches, err)
	}
	return nil
}

// batches counts the batches of an epoch.
func (o *oracle) batches(shard, epoch int) (n int) {
	for _, x := range o.Batches {
		if x.Key.Shard == shard && x.Key.Epoch == epoch {
			n++
		}
	}
	return n
}

// smallForms reads one of the forms that are not tensors.
func (c *client) smallForms() error {
	form := pick(c.random, layout.Valid, layout.Labels, layout.IDs, layout.Sizes)
	return c.with(c.next(), form, 0, func(h *holding) error { return c.fill(h, 0, h.size+1, "read", h.pread) })
}

// strange opens paths that must not open.
func (c *client) strange() error {
	x := c.next()
	before := c.weather.now()
	for _, s := range []struct {
		path  string
		flags int
		want  error
	}{
		{c.path(x.Key, layout.NPY) + "x", unix.O_RDONLY, unix.ENOENT},
		{filepath.Join(c.Mount, "shard-99"), unix.O_RDONLY, unix.ENOENT},
		{c.path(x.Key, layout.NPY), unix.O_RDWR, unix.EROFS},
		{filepath.Join(c.Mount, "dataset.json"), unix.O_WRONLY | unix.O_TRUNC, unix.EROFS},
	} {
		fd, err := unix.Open(s.path, s.flags|unix.O_CLOEXEC, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		if err != s.want && err != unix.EINTR && !c.weather.since(before, adrift) {
			return found("open of %s with flags %#x: %v, not %v", s.path, s.flags, err, s.want)
		}
	}
	if f, err := os.Open(filepath.Join(c.Mount, ".batchfs/stats.json")); err == nil {
		_, _ = io.Copy(io.Discard, f)
		_ = f.Close()
	}
	return nil
}

// openMany opens several batches at once.
func (c *client) openMany() error {
	batches := make([]*expected, 2+c.random.IntN(10))
	for i := range batches {
		c.jump()
		batches[i] = c.next()
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	var first error
	for _, x := range batches {
		all.Go(func() {
			err := c.with(x, layout.NPY, 0, func(h *holding) error { return c.fill(h, 0, h.size, "read of one of many", h.pread) })
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = err
			}
		})
	}
	all.Wait()
	return first
}

// die opens many batches and is killed meanwhile.
func (c *client) die() error {
	for range 16 {
		c.jump()
		path := c.path(c.next().Key, layout.NPY)
		go func() {
			if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
				_, _ = unix.Read(fd, make([]byte, 4096))
			}
		}()
	}
	time.Sleep(time.Duration(c.random.IntN(20_000)) * time.Microsecond)
	c.note("dies")
	return unix.Kill(os.Getpid(), unix.SIGKILL)
}

// address is the socket on which a client receives files from others.
func (c *client) address(i int) *unix.SockaddrUnix {
	return &unix.SockaddrUnix{Name: c.file("post-" + strconv.Itoa(i))}
}

package pinned

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Buffer is the memory of one batch. The caller of Pool.Get owns it until Release; its bytes
// may be written only before they are shown to a reader.
type Buffer struct {
	pool  *Pool
	fd    int    // -1 for anonymous memory
	bytes []byte // the owner's view of the mapping
	size  int64  // the requested size, which is the size of the file

	// mapping is in whole pages, at least as many as size needs. Like size, it belongs to the Get
	// that took the buffer out of the pool, or to the holder of Pool.asking.
	mapping []byte
	locked  bool // the mapping is page-locked

	registering sync.Mutex
	registered  []byte // the start of mapping that the pool's Registrar knows

	// Guarded by Pool.mu.
	held        int64  // bytes of memory behind it, in whole pages; those beyond size are spare
	lockedBytes int64  // how many of them count as page-locked
	turn        uint64 // sequence number of its release: the latest are likeliest to be in the CPU cache
}

// Bytes is the buffer's memory, exactly as long as requested. It is nil for a size of 0. Its
// initial contents are unspecified.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Fd is the descriptor of the file that holds exactly the bytes, from offset 0; -1 if the buffer
// has none. It belongs to the buffer: do not close it.
func (b *Buffer) Fd() int { return b.fd }

// Release gives the buffer back. Afterwards only readers that the kernel serves may see it.
// Releasing twice panics: the memory might already belong to another batch.
func (b *Buffer) Release() { b.pool.put(b) }

// Register registers the bytes with the pool's Registrar, unless they are registered and their
// pages have not changed. It does nothing without a Registrar. Only the caller waits for the
// Registrar.
func (b *Buffer) Register() error {
	b.registering.Lock()
	defer b.registering.Unlock()
	need := int(roundUp(b.size, pageSize))
	if b.pool.options.Registrar == nil || len(b.registered) >= need {
		return nil
	}
	if b.registered != nil {
		b.pool.options.Registrar.Unregister(b.registered)
		b.registered = nil
	}
	whole := unsafe.Slice(unsafe.SliceData(b.bytes), need) // another goroutine may cut the spare memory of mapping
	if err := b.pool.options.Registrar.Register(whole); err != nil {
		return err
	}
	b.registered = whole
	return nil
}

// movesPages reports whether resize frees or moves pages that are registered.
func (b *Buffer) movesPages(size, held int64) bool {
	need := roundUp(size, pageSize)
	return need < int64(len(b.registered)) || b.registered != nil && b.mapsAnew(size, held)
}

// mapsAnew reports whether resize replaces the mapping: of a file, if the mapping is too small (the
// tail of a larger one is not touched); of ordinary memory, if the size differs.
func (b *Buffer) mapsAnew(size, held int64) bool {
	if b.fd < 0 {
		return held != int64(len(b.mapping))
	}
	return roundUp(size, pageSize) > int64(len(b.mapping))
}

func (b *Buffer) sys() system { return b.pool.store.system }

// resize makes the buffer size bytes long, with held bytes of memory behind it. It returns how many
// it has now: a refusal of spare memory is not an error. Pages that it frees or moves must not be
// registered.
func (b *Buffer) resize(size, held int64) (int64, error) {
	var err error
	if b.fd >= 0 {
		held, err = b.resizeFile(size, held)
	}
	if err == nil {
		err = b.remap(size, held)
	}
	if err != nil {
		return 0, err
	}
	b.size, b.bytes = size, nil
	if size > 0 {
		b.bytes = b.mapping[:size:size]
	}
	return held, nil
}

// resizeFile sets where the file ends, and allocates its pages up to held, including those past
// its end.
func (b *Buffer) resizeFile(size, held int64) (int64, error) {
	from := b.held // pages up to here are allocated
	if size < b.size {
		from = size
	}
	if size != b.size { // shortening frees all pages past the new end
		if err := b.sys().truncate(b.fd, size); err != nil {
			return 0, refused(fmt.Sprintf("size a batch file to %d bytes", size), err)
		}
	}
	need := roundUp(size, pageSize)
	err := b.allocate(from, held)
	if err != nil && held > need {
		held = need
		err = b.allocate(from, need)
	}
	return held, err
}

// allocate allocates the file's pages between two offsets, so that writing to a mapping cannot
// fail. The end of the file does not change.
func (b *Buffer) allocate(from, to int64) error {
	for to > from {
		err := b.sys().allocate(b.fd, unix.FALLOC_FL_KEEP_SIZE, from, to-from)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return refused(fmt.Sprintf("allocate %d bytes for a batch", to-from), err)
		}
	}
	return nil
}

// remap replaces the mapping if necessary.
func (b *Buffer) remap(size, held int64) (err error) {
	if !b.mapsAnew(size, held) {
		return nil
	}
	var m []byte
	if b.fd < 0 {
		b.unmap() // first, because the budget covers only one of the two
		m, err = b.sys().mapMemory(int(held))
	} else {
		m, err = b.sys().mapFile(b.fd, int(held))
	}
	if err != nil {
		return refused(fmt.Sprintf("map %d bytes for a batch", held), err)
	}
	b.unmap()
	b.mapping, b.locked = m, b.pool.lock(m)
	// Only hints: Linux before 5.14 maps pages of a file when they are touched, and a kernel
	// without huge pages refuses those.
	if b.fd >= 0 {
		_ = b.sys().advise(m[:size], unix.MADV_POPULATE_WRITE)
	} else {
		_ = b.sys().advise(m, unix.MADV_HUGEPAGE)
	}
	return nil
}

// free returns n bytes of spare memory, starting at an offset, to the kernel, and returns how many
// bytes that freed. It may be less: the kernel cannot split a large page of a file while a part of
// it is in a pipe or socket, where a reader put it.
func (b *Buffer) free(from, n int64) int64 {
	if b.fd >= 0 {
		if b.sys().allocate(b.fd, unix.FALLOC_FL_KEEP_SIZE|unix.FALLOC_FL_PUNCH_HOLE, from, n) != nil {
			return 0
		}
		return n - min(max(b.sys().allocated(b.fd)-from, 0), n)
	}
	if from == 0 {
		b.unmap()
		return n
	}
	m, err := b.sys().remap(b.mapping, int(from), 0)
	if err != nil {
		return 0
	}
	b.mapping = m
	return n
}

func (b *Buffer) unmap() {
	if b.mapping != nil {
		b.sys().unmap(b.mapping)
		b.mapping = nil
	}
}

func (b *Buffer) destroy() {
	b.unmap()
	if b.fd >= 0 {
		b.sys().close(b.fd)
		b.fd = -1
	}
}

package fusefs

import "sync"

// A handle is one open file: either with bytes of its own, or sharing a large file.
type handle struct {
	data    []byte    // never changes
	file    *openFile // nil for small files
	control bool      // below .batchfs: not counted
}

// bytes is the file's content, valid while it is open.
func (h *handle) bytes() []byte {
	if h.file != nil {
		return h.file.file.Bytes()
	}
	return h.data
}

// handles are the open files by handle number. The zero value is ready for use.
type handles struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]*handle
}

// add registers a handle and returns its number.
func (t *handles) add(h *handle) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[uint64]*handle{}
	}
	t.last++
	t.open[t.last] = h
	return t.last
}

func (t *handles) get(fh uint64) (*handle, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.open[fh]
	return h, ok
}

// remove forgets a handle. Only the first of two calls gets it.
func (t *handles) remove(fh uint64) (*handle, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.open[fh]
	delete(t.open, fh)
	return h, ok
}

func (t *handles) removeAll() map[uint64]*handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.open
	t.open = nil
	return all
}

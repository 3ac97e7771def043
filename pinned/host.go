package pinned

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// A Host is an ordinary host buffer off the Go heap, for the data needed while a sample is decoded.
// It grows and shrinks by the rules in the package comment. The zero value is empty, and never
// shrinks. It belongs to one goroutine, and must not be copied after first use.
type Host struct {
	policy   Policy
	account  *Account
	capacity capacity
	mapping  []byte // as long as capacity.held
	real     int64  // the last request
	system   system // nil means the kernel
}

// NewHost returns an empty buffer that follows a policy. It reports its use to the account, which
// may be nil, and may be shared by buffers of several goroutines.
func NewHost(p Policy, a *Account) Host { return Host{policy: p, account: a} }

// Plan is the number of bytes that the buffer will take after Grow(n). A caller with a budget
// charges Plan(n)-Bytes() beforehand if that is positive, or gives the difference back afterwards.
func (h *Host) Plan(n int) int64 { return h.capacity.after(int64(n), h.policy).held }

// Grow returns n bytes with unspecified contents, valid until the next Grow, Presize or Free. It
// may free memory that was not needed lately. It fails only with errKernel; the buffer is then
// unchanged, and a caller that charged a budget for it must cancel that.
func (h *Host) Grow(n int) ([]byte, error) {
	if err := h.become(h.capacity.after(int64(n), h.policy), int64(n)); err != nil {
		return nil, err
	}
	return h.mapping[:n:n], nil
}

// Presize makes the buffer at least n bytes large, in whole units, and keeps it so until Free.
// It fails like Grow.
func (h *Host) Presize(n int) error { return h.become(h.capacity.presized(int64(n)), h.real) }

// Bytes is how much memory the buffer takes.
func (h *Host) Bytes() int64 { return h.capacity.held }

// Free frees the memory; the buffer is empty afterwards.
func (h *Host) Free() {
	if h.mapping != nil {
		h.sys().unmap(h.mapping)
		h.mapping = nil
	}
	h.note(capacity{}, 0)
}

// become changes the memory to that of the next capacity. If it fails, nothing changes.
func (h *Host) become(next capacity, real int64) error {
	if next.held != h.capacity.held {
		// Pages that stay are not faulted in again, and pages that go are unmapped, so resident
		// memory never exceeds capacity.held.
		m, err := h.mapping, error(nil)
		if m == nil {
			m, err = h.sys().mapMemory(int(next.held))
		} else {
			m, err = h.sys().remap(m, int(next.held), unix.MREMAP_MAYMOVE)
		}
		if err != nil {
			return refused(fmt.Sprintf("map %d bytes for a worker", next.held), err)
		}
		h.mapping = m
	}
	h.note(next, real)
	return nil
}

func (h *Host) note(next capacity, real int64) {
	h.account.Change(Use{h.real, h.capacity.held}, Use{real, next.held})
	h.capacity, h.real = next, real
}

func (h *Host) sys() system {
	if h.system == nil {
		return kernel{}
	}
	return h.system
}

package pinned

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/detached"
	"github.com/batchfs/batchfs/internal/fault"
)

// Either the budget or the kernel can refuse memory, and the remedies differ.
var (
	// ErrNoMemory means that the Budget refused. Memory that the same process gives back
	// (Budget.Release) may let the next attempt succeed.
	ErrNoMemory = errors.New("no memory left")
	// errKernel means that the kernel refused: memory (ENOMEM under RLIMIT_AS or
	// vm.overcommit_memory=2, ENOSPC of the private tmpfs), descriptors (EMFILE, ENFILE), or
	// anything else that a system call of this package requests. The error also wraps the errno.
	// It says nothing about the budget, and waiting for the budget does not help.
	errKernel = errors.New("the kernel refused")
)

// refused returns errKernel with the request and the kernel's answer. A full tmpfs is a lack of
// memory, whereas of other files ENOSPC says that a disk is full.
func refused(what string, err error) error {
	if errors.Is(err, unix.ENOSPC) {
		err = &fault.Fault{Cause: fault.Memory, Err: err}
	}
	return fmt.Errorf("%w to %s: %w", errKernel, what, err)
}

// A Store is where buffers come from: a private tmpfs, or anonymous memory if the process may
// not have one.
type Store struct {
	root   int // descriptor of the detached tmpfs, -1 for anonymous memory
	reason error
	leases error // why its files cannot be reused
	system system
}

// NewStore makes a store. limit is the size of the tmpfs in bytes; it is a backstop, since a
// Pool's budget applies first. NewStore never fails: Reason says why a store is anonymous.
func NewStore(limit int64) *Store {
	options := []string{"mode=0700", "size=" + strconv.FormatInt(limit, 10)}
	root, err := detached.Mount("tmpfs", append(options, "huge=within_size"), 0)
	if errors.Is(err, unix.EINVAL) { // a kernel without huge pages for tmpfs
		root, err = detached.Mount("tmpfs", options, 0)
	}
	if err != nil {
		return &Store{root: -1, reason: err, system: kernel{}}
	}
	return newStore(root, kernel{})
}

// newStore makes a store of files in a directory, and tests whether leases work.
func newStore(root int, sys system) *Store {
	s := &Store{root: root, system: sys}
	s.leases = s.tryLease()
	return s
}

// NewAnonymousStore makes a store of ordinary memory, as NewStore does for a process without
// privileges.
func NewAnonymousStore() *Store {
	return &Store{root: -1, reason: errors.New("anonymous memory was requested"), system: kernel{}}
}

// files reports whether buffers have a descriptor that the kernel can serve.
func (s *Store) files() bool { return s.root >= 0 }

// Reason says why the store has no files; nil if it has.
func (s *Store) Reason() error { return s.reason }

// Close releases the tmpfs. Files that are still open stay valid.
func (s *Store) Close() {
	if s.root >= 0 {
		s.system.close(s.root)
		s.root = -1
	}
}

// File opens a new unnamed file in the store, which the caller must close. It fails with
// errKernel if the kernel is out of descriptors.
func (s *Store) File() (int, error) {
	if s.root < 0 {
		return -1, fmt.Errorf("no private tmpfs: %w", s.reason)
	}
	fd, err := s.system.temporary(s.root)
	if err != nil {
		return -1, refused("open a file of the private tmpfs", err)
	}
	return fd, nil
}

// Leases returns nil if the kernel grants leases on the store's files, else the reason why not.
// This was tested when the store was made. Without leases a pool cannot know when the last reader
// is gone, so it frees buffers instead of reusing them. A store without files needs no leases: nil.
func (s *Store) Leases() error { return s.leases }

// tryLease requests a lease on a file that nothing else has open.
func (s *Store) tryLease() error {
	fd, err := s.File()
	if err != nil {
		return err
	}
	defer s.system.close(fd)
	alone, err := s.alone(fd)
	if err == nil && !alone {
		err = errors.New("no lease on a file that nobody else has open")
	}
	return err
}

// alone asks the kernel whether fd is the only way to a file: whether no other open file of it
// exists, and no mapping through another. An error means that the kernel does not grant leases.
func (s *Store) alone(fd int) (bool, error) {
	switch err := s.system.lease(fd, unix.F_WRLCK); err {
	case nil:
	case unix.EAGAIN:
		return false, nil
	case unix.EINVAL:
		return false, fmt.Errorf("file leases are off: sysctl fs.leases-enable=1 turns them on: %w", err)
	default:
		return false, fmt.Errorf("lease a file: %w", err)
	}
	// The lease itself is not needed: from here on nothing else can open the file.
	err := s.system.lease(fd, unix.F_UNLCK)
	return err == nil, err
}

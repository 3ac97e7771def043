package pinned

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Leases tells whether a mount by this process could reuse batch memory: nil, or why
// not. It tries what the mount would do, on a private tmpfs of its own.
func Leases() error {
	s := NewStore(1 << 20)
	defer s.Close()
	return s.Leases()
}

// Leases tells whether the kernel grants leases on the store's files: nil, or why
// not. It was tried when the store was made. Without leases nobody can know when
// the last reader has gone, and a pool frees buffers instead of reusing them. A
// store without files needs none: nil.
func (s *Store) Leases() error { return s.leases }

// tryLease asks for a lease on a file that nobody else has.
func (s *Store) tryLease() error {
	fd, err := s.File()
	if err != nil {
		return err
	}
	defer s.system.close(fd)
	alone, err := s.alone(fd)
	if err == nil && !alone {
		err = errNotAlone
	}
	return err
}

var errNotAlone = errors.New("no lease on a file that nobody else has open")

// alone asks the kernel whether fd is the only way to a file: whether no other
// open file of it exists, and no mapping through another. The error says that the
// kernel does not answer such questions.
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
	// The answer is all that was wanted: nobody can open the file from here on.
	err := s.system.lease(fd, unix.F_UNLCK)
	return err == nil, err
}

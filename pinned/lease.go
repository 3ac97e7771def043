package pinned

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Leases returns nil if a mount by this process could reuse batch memory, else the reason why
// not. It tries what the mount would do, on a private tmpfs of its own.
func Leases() error {
	s := NewStore(1 << 20)
	defer s.Close()
	return s.Leases()
}

// Leases returns nil if the kernel grants leases on the store's files, else the reason why not.
// This was tested when the store was made. Without leases a pool cannot know when the last
// reader is gone, so it frees buffers instead of reusing them. A store without files needs none:
// nil.
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
		err = errNotAlone
	}
	return err
}

var errNotAlone = errors.New("no lease on a file that nobody else has open")

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

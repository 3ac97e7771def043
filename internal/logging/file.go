package logging

import (
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// A File is a log that log rotation may rename.
type File struct {
	*os.File
	name string // absolute, since a daemon leaves its directory

	mu   sync.Mutex
	also []int // descriptors that also refer to the file: a daemon's standard output and error
}

// OpenFile opens a file to append to.
func OpenFile(name string) (*File, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		name, err = filepath.Abs(name)
	}
	return &File{File: file, name: name}, err
}

// Reopen makes the descriptors refer to a new file after the old one was renamed. If that
// fails, the old one stays in use.
func (f *File) Reopen() error {
	file, err := OpenFile(f.name)
	if err != nil {
		return err
	}
	defer file.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := unix.Dup3(int(file.Fd()), int(f.Fd()), unix.O_CLOEXEC); err != nil {
		return err
	}
	return duplicate(f.File, f.also)
}

// Follow makes descriptors refer to the file, now and after each Reopen.
func (f *File) Follow(fds ...int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.also = fds
	return duplicate(f.File, fds)
}

// duplicate makes descriptors of this process refer to a file.
func duplicate(file *os.File, fds []int) error {
	for _, fd := range fds {
		if err := unix.Dup3(int(file.Fd()), fd, 0); err != nil {
			return err
		}
	}
	return nil
}

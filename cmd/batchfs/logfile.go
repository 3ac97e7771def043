package main

import (
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// A logFile is a log that log rotation may rename.
type logFile struct {
	*os.File
	name string // absolute, since a daemon leaves its directory

	mu   sync.Mutex
	also []int // descriptors that also refer to the file: a daemon's standard output and error
}

// openLogFile opens a file to append to.
func openLogFile(name string) (*logFile, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		name, err = filepath.Abs(name)
	}
	return &logFile{File: file, name: name}, err
}

// reopen makes the descriptors refer to a new file after the old one was renamed. If that
// fails, the old one stays in use.
func (f *logFile) reopen() error {
	file, err := openLogFile(f.name)
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

// follow makes descriptors refer to the file, now and after each reopen.
func (f *logFile) follow(fds ...int) error {
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

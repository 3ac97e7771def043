package pinned

import (
	"errors"
	"fmt"
)

// Memory can be refused by two parties, and what helps differs.
var (
	// ErrNoMemory means that the Budget refused. Memory that the same process gives
	// back (Budget.Release) may let the next attempt succeed.
	ErrNoMemory = errors.New("no memory left")
	// ErrKernel means that the kernel refused: memory (ENOMEM under RLIMIT_AS or
	// vm.overcommit_memory=2, ENOSPC of the private tmpfs), descriptors (EMFILE,
	// ENFILE), or anything else that a system call of this package asks for. The
	// error wraps the errno as well. It says nothing about the budget, and waiting for
	// the budget does not help.
	ErrKernel = errors.New("the kernel refused")
)

// refused is ErrKernel with what was asked for and the kernel's answer.
func refused(what string, err error) error { return fmt.Errorf("%w to %s: %w", ErrKernel, what, err) }

package pinned

import (
	"errors"
	"fmt"
)

// Either the budget or the kernel can refuse memory, and the remedies differ.
var (
	// ErrNoMemory means that the Budget refused. Memory that the same process gives back
	// (Budget.Release) may let the next attempt succeed.
	ErrNoMemory = errors.New("no memory left")
	// ErrKernel means that the kernel refused: memory (ENOMEM under RLIMIT_AS or
	// vm.overcommit_memory=2, ENOSPC of the private tmpfs), descriptors (EMFILE, ENFILE), or
	// anything else that a system call of this package requests. The error also wraps the errno.
	// It says nothing about the budget, and waiting for the budget does not help.
	ErrKernel = errors.New("the kernel refused")
)

// refused returns ErrKernel with the request and the kernel's answer.
func refused(what string, err error) error { return fmt.Errorf("%w to %s: %w", ErrKernel, what, err) }

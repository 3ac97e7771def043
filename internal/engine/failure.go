package engine

import (
	"errors"
	"fmt"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/fault"
)

var (
	// ErrBad means that a batch holds a sample that cannot be read.
	ErrBad = fault.New(fault.File, "bad sample")
	// ErrNoMemory means that the memory limit leaves no room for the batch, or that the
	// kernel refused the memory.
	ErrNoMemory = fault.New(fault.Memory, "out of memory")
	// ErrMachine means that storage, descriptors or batchfs itself failed. No file is at
	// fault, and the next Open tries the batch again.
	ErrMachine = errors.New("the machine failed")
	// ErrLeftBehind is returned by Close if reads hang in the kernel, or calls in a GPU's driver.
	// These calls, the memory they use and the dataset's descriptors stay until they return.
	ErrLeftBehind = errors.New("reads that hang in the kernel, or in the GPU's driver, were left behind")
	// ErrTooBig means that the batch would exceed the maximum size of a file.
	ErrTooBig = errors.New("the batch is larger than a file can be")
	// ErrNotExist means that there is no such batch.
	ErrNotExist = errors.New("no such batch")
	// ErrClosed means that the engine is shutting down.
	ErrClosed = fault.New(fault.Cancelled, "engine closed")

	// ErrNoRoomOnGPU means that the GPU's memory for batches is used up.
	ErrNoRoomOnGPU = fmt.Errorf("%w on the GPU", ErrNoMemory)
	// ErrPanic means that a bug in batchfs ended the work for a batch.
	ErrPanic = errors.New("panic")

	// errAway means that a batch is only on the GPU, which does not give it back.
	errAway = errors.New("the pixels are on the GPU")
	// errHangs means that the GPU's driver has not answered yet.
	errHangs = errors.New("the GPU's driver does not answer")
	// errDropped ends the work for a batch that nothing waits for.
	errDropped = fault.New(fault.Cancelled, "batch dropped")
	// errGone means that the batch, or the one that was to be copied, has given way to another one.
	// It is asked for again.
	errGone = fault.New(fault.Cancelled, "the batch is gone")
	// errLater means that a batch turned out to have large samples: see schedule.mayBegin.
	errLater = errors.New("other batches may go first")
	// errKnownGood means that a part of a sample that the batch does not show is known to be good.
	errKnownGood = errors.New("known to be good")
	// errNoRoom means that the memory limit leaves no room at the moment. The work that asked for
	// memory is not begun until there is some. It never reaches a reader.
	errNoRoom = errors.New("no room under the memory limit yet")
)

// machineError wraps a failure of the machine in ErrNoMemory or ErrMachine.
func machineError(err error) error {
	switch {
	case errors.Is(err, ErrNoMemory), errors.Is(err, ErrMachine):
		return err
	case fault.Of(err) == fault.Memory:
		return fmt.Errorf("%w: %w", ErrNoMemory, err)
	}
	return fmt.Errorf("%w: %w", ErrMachine, err)
}

// outOfDescriptors reports whether a table of open files is full.
func outOfDescriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

// A panicError is a panic while making a batch. It fails that batch and nothing else.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("%v: %v", ErrPanic, p.value) }
func (p *panicError) Unwrap() error { return ErrPanic }

// catch, when deferred, makes a panic the error that the function returns.
func catch(err *error) {
	if v := recover(); v != nil {
		*err = &panicError{v, debug.Stack()}
	}
}

// warnMachine logs a batch failure that is not the fault of a file.
func (o *Options) warnMachine(k Key, err error) {
	attrs := []any{"batch", k.String(), "reason", err.Error()}
	if remedy := o.Remedy(err); remedy != "" {
		attrs = append(attrs, "hint", remedy)
	}
	if p := (*panicError)(nil); errors.As(err, &p) {
		attrs = append(attrs, "stack", string(p.stack))
	}
	o.Logger.Error("a batch could not be made; it is tried again at its next open", attrs...)
}

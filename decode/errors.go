package decode

import (
	"errors"
	"fmt"

	"github.com/batchfs/batchfs/internal/fault"
)

// Reasons for refusing an image. Errors wrap one of these and add a message that users can
// understand.
var (
	// ErrFormat: not an image, or of an unsupported kind.
	ErrFormat = fault.New(fault.File, "unsupported image")
	// ErrCorrupt: an image whose data is damaged or ends early.
	ErrCorrupt = fault.New(fault.File, "corrupt image")
	// ErrTooLarge: more pixels than Options.MaxPixels.
	ErrTooLarge = fault.New(fault.File, "image too large")
	// ErrShort: the bytes so far are valid, but more are needed.
	ErrShort = fault.New(fault.File, "more bytes needed")
	// ErrMismatch: the image is not the one the caller's header describes.
	ErrMismatch = fault.New(fault.File, "image differs from its header")
	// ErrMemory: the codec could not allocate what it needs.
	ErrMemory = fault.New(fault.Memory, "no memory to decode")
	// ErrPart: decoding needs all of the file, but only a part was read.
	ErrPart = errors.New("part of an image")
	// ErrNoPackedForm: the image cannot be packed in the requested way.
	ErrNoPackedForm = errors.New("no packed form")
	// ErrDestination: the caller gave a wrong destination, region or scale.
	ErrDestination = errors.New("bad destination")
)

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// endsEarly returns the error for data that stops too soon: ErrShort for a prefix, which may
// continue, and ErrCorrupt for a complete file.
func endsEarly(complete bool) error {
	if !complete {
		return ErrShort
	}
	return corrupt("the data ends early")
}

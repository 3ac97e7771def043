package decode

import (
	"errors"
	"fmt"
	"slices"
)

// Reasons for refusing an image. Errors wrap one of these and add a message that users can
// understand.
var (
	// ErrFormat: not an image, or of an unsupported kind.
	ErrFormat = errors.New("unsupported image")
	// ErrCorrupt: an image whose data is damaged or ends early.
	ErrCorrupt = errors.New("corrupt image")
	// ErrTooLarge: more pixels than Options.MaxPixels.
	ErrTooLarge = errors.New("image too large")
	// ErrShort: the bytes so far are valid, but more are needed.
	ErrShort = errors.New("more bytes needed")
	// ErrMismatch: the image is not the one the caller's header describes.
	ErrMismatch = errors.New("image differs from its header")
	// ErrMemory: the codec could not allocate what it needs.
	ErrMemory = errors.New("no memory to decode")
	// ErrPart: all of the file is needed, and only a part of it was read.
	ErrPart = errors.New("part of an image")
	// ErrDestination: the caller gave a wrong destination, region or scale.
	ErrDestination = errors.New("bad destination")
)

// OfImage reports whether an error of this package is about the given bytes, so that they would
// be refused again. ErrMemory is not such an error, nor are ErrPart, ErrDestination and errors of other
// packages.
func OfImage(err error) bool {
	about := func(kind error) bool { return errors.Is(err, kind) }
	return slices.ContainsFunc([]error{ErrFormat, ErrCorrupt, ErrTooLarge, ErrMismatch, ErrShort}, about) && !about(ErrMemory)
}

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

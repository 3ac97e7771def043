package decode

import (
	"errors"
	"fmt"
)

// Reasons for refusing an image. Errors wrap one of these, followed by words a
// user can read.
var (
	// ErrFormat: not an image, or of a kind that is not read.
	ErrFormat = errors.New("unsupported image")
	// ErrCorrupt: an image whose data is damaged or ends early.
	ErrCorrupt = errors.New("corrupt image")
	// ErrTooLarge: more pixels than Options.MaxPixels.
	ErrTooLarge = errors.New("image too large")
	// ErrShort: the bytes so far are fine, but more are needed.
	ErrShort = errors.New("more bytes needed")
	// ErrMismatch: the image is not the one the caller's header describes.
	ErrMismatch = errors.New("image differs from its header")
	// ErrMemory: the codec could not allocate what it needs.
	ErrMemory = errors.New("no memory to decode")
	// ErrDestination: a mistake of the caller in destination, region or scale.
	ErrDestination = errors.New("bad destination")
)

// OfImage reports whether an error of this package is about the bytes that were given, so that
// they would be refused again: that they are no image that is read, damaged, too large,
// too few, or not what the header said. ErrMemory is not: the same bytes may decode at the next
// try. Nor is ErrDestination, which is a mistake of the caller, nor any error of others.
func OfImage(err error) bool {
	for _, kind := range []error{ErrFormat, ErrCorrupt, ErrTooLarge, ErrMismatch, ErrShort} {
		if errors.Is(err, kind) {
			return !errors.Is(err, ErrMemory)
		}
	}
	return false
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// endsEarly is the answer to data that stops before what was announced: more
// may follow a prefix, but nothing follows a whole file.
func endsEarly(complete bool) error {
	if !complete {
		return ErrShort
	}
	return corrupt("the data ends early")
}

package profile

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/batchfs/batchfs/convert"
	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/engine"
)

// Options say what to profile for. Engine is required.
type Options struct {
	// Engine are the settings of the mount. How many epochs there are does not matter.
	Engine engine.Options
	// Storage is how the mount reads files.
	Storage dataset.Storage
	// Raw is how raw samples are stored: format, size and resize mode. Pixel options are
	// those of Engine, whatever stands here; nothing else is looked at.
	Raw convert.Options

	// Images is how many images to measure with at most; 0: 256, or fewer where they are
	// large.
	Images int
	// Work is the directory in which raw copies are made, in a directory of their own;
	// "": the one that the dataset is in, if that is on the same device and can be written
	// to, else the system's directory for temporary files.
	Work string
	// Exhaustive measures all 11 mixes, and runs the engine with each.
	Exhaustive bool
	// Least is how long a figure is measured for at least; 0: a second.
	Least time.Duration

	// Progress, if not nil, is told how many of how many parts of a phase are done. Calls
	// do not overlap.
	Progress func(phase Phase, done, total int)
	// Measured, if not nil, is told each step as it was measured.
	Measured func(Step)
	// Logger, if not nil, gets what dataset and engine have to say.
	Logger *slog.Logger
}

// Phase is a part of the work.
type Phase uint8

const (
	// Copying makes raw copies; its parts are images.
	Copying Phase = iota
	// Measuring measures mixes; its parts are figures.
	Measuring
)

var (
	// ErrOptions is what every error about Options wraps, but those of the engine.
	ErrOptions = errors.New("profile: bad options")
	// ErrInside: the directory for raw copies lies inside the dataset.
	ErrInside = errors.New("lies inside the dataset")
	// ErrSpace: there is no room for the raw copies.
	ErrSpace = errors.New("not enough space for raw copies")
	// ErrNoSample: no image of the sample can be read.
	ErrNoSample = errors.New("no image of the dataset can be read")
)

const (
	defaultImages   = 256
	defaultRawBytes = 1 << 30 // of raw copies, where nobody says how many images
	leastImages     = 20
	defaultLeast    = time.Second
)

func (o *Options) validate() error {
	switch {
	case o.Images < 0:
		return fmt.Errorf("%w: images must be 0 or more, not %d", ErrOptions, o.Images)
	case o.Least < 0:
		return fmt.Errorf("%w: least time must be 0 or more, not %v", ErrOptions, o.Least)
	case o.Engine.Workers < 1:
		return fmt.Errorf("%w: workers must be at least 1, not %d", ErrOptions, o.Engine.Workers)
	case o.Engine.BatchSize < 1:
		return fmt.Errorf("%w: batch size must be at least 1, not %d", ErrOptions, o.Engine.BatchSize)
	}
	return nil
}

// filled is o with the defaults in place.
func (o Options) filled() Options {
	if o.Least == 0 {
		o.Least = defaultLeast
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(Phase, int, int) {}
	}
	if o.Measured == nil {
		o.Measured = func(Step) {}
	}
	o.Raw.IgnoreOrientation, o.Raw.MaxPixels = o.Engine.IgnoreOrientation, o.Engine.MaxPixels
	return o
}

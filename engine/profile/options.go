package profile

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/batchfs/batchfs/dataset"
	"github.com/batchfs/batchfs/dataset/convert"
	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/internal/option"
)

// Options say what to profile for. Engine is required.
type Options struct {
	// Engine holds the settings of the mount. The number of epochs does not matter.
	Engine engine.Options
	// Storage is how the mount reads files.
	Storage dataset.Storage
	// Raw says how to store raw samples: format, size and resize mode. Pixel options are
	// those of Engine, whatever is set here. All other fields are ignored.
	Raw convert.Options

	// Images is the maximum number of images to measure with; 0: 256, or fewer if they are
	// large.
	Images int
	// Work is the directory in which a directory for raw copies is made. "": the dataset's
	// parent, if it is on the same device and writable, else the system's directory for
	// temporary files.
	Work string
	// Exhaustive measures all 11 mixes and runs the engine with each.
	Exhaustive bool
	// Least is the minimum time to measure a figure for; 0: a second.
	Least time.Duration

	// Progress, if not nil, is called with the number of parts done and the total of a
	// phase. Calls do not overlap.
	Progress func(phase Phase, done, total int)
	// Measured, if not nil, is called with each step after its measurement.
	Measured func(Step)
	// Logger, if not nil, receives the logs of dataset and engine.
	Logger *slog.Logger
}

// Phase is a part of the work.
type Phase uint8

// The phases.
const (
	Copying   Phase = iota // makes raw copies; its parts are images
	Measuring              // measures mixes; its parts are figures
)

var (
	// ErrInside means that the directory for raw copies lies inside the dataset.
	ErrInside = errors.New("lies inside the dataset")
	// ErrSpace means that there is no room for the raw copies.
	ErrSpace = errors.New("not enough space for raw copies")
	// ErrNoSample means that no image of the sample can be read.
	ErrNoSample = errors.New("no image of the dataset can be read")
)

const (
	defaultImages   = 256
	defaultRawBytes = 1 << 30 // of raw copies, if Images is 0
	leastImages     = 20
)

func (o *Options) validate() error {
	return cmp.Or(
		option.AtLeast("images", int64(o.Images), 0),
		option.AtLeast("least time", int64(o.Least), 0),
		option.AtLeast("workers", int64(o.Engine.Workers), 1),
		option.AtLeast("batch size", int64(o.Engine.BatchSize), 1),
	)
}

// filled returns o with defaults filled in.
func (o Options) filled() Options {
	if o.Least == 0 {
		o.Least = time.Second
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
	o.Raw.IgnoreOrientation, o.Raw.MaxPixels = o.Engine.Decoding.IgnoreOrientation, o.Engine.Decoding.MaxPixels
	return o
}

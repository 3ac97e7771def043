package profile

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/batchfs/batchfs/internal/convert"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/shard"
)

// Options say what to profile for. Engine is required.
type Options struct {
	// Engine holds the settings of the mount. The number of epochs does not matter.
	Engine engine.Options
	// AsKept uses the dataset's existing entry points, if any, instead of Engine.Entries.
	AsKept bool
	// Storage is how the mount reads files.
	Storage dataset.Storage
	// Forms are the forms that images may get, out of shard.Packed and shard.Raw; nil: both.
	Forms []shard.Cost
	// Raw says how to store raw samples: format, size and resize mode. Pixel options are those of
	// Engine, whatever is set here. All other fields are ignored.
	Raw convert.Options

	// Samples is the size of the whole dataset, never less than the given part. 0: unknown.
	// A cache that would hold all given samples, even in the largest form, is then ignored: it
	// would make any mix seem fast to load, and the whole may be too large for it.
	Samples int
	// Images is the maximum number of images to measure with; 0: 256, or fewer if they are
	// large.
	Images int
	// Work is the directory in which a directory for copies is made. "": the dataset's
	// parent, if it is on the same device and writable, else the system's directory for
	// temporary files.
	Work string
	// Consumer is how long training takes for a batch of each shard that is read here; 0: unknown.
	Consumer time.Duration
	// Exhaustive measures all mixes of two forms in tenths, and runs the engine with each.
	Exhaustive bool
	// Least is the minimum time to measure a figure for; 0: a second.
	Least time.Duration

	// Copied, if not nil, is called with the number of images that have copies, and of all that get
	// one; Measured then with the number of figures. Calls do not overlap.
	Copied, Measured func(done, total int64)
}

// ErrNoSample means that no image of the sample can be read.
var ErrNoSample = errors.New("no image of the dataset can be read")

const (
	defaultImages    = 256
	defaultCopyBytes = 1 << 30 // of copies, if Images is 0
	leastImages      = 20
)

// filled returns o with defaults filled in.
func (o Options) filled() Options {
	if o.Forms == nil {
		o.Forms = []shard.Cost{shard.Packed, shard.Raw}
	}
	o.Engine.Epochs = 1 << 20 // more than any measurement reads
	o.Least, o.Engine.Logger = cmp.Or(o.Least, time.Second), cmp.Or(o.Engine.Logger, slog.New(slog.DiscardHandler))
	o.Raw.IgnoreOrientation, o.Raw.MaxPixels = o.Engine.Decoding.IgnoreOrientation, o.Engine.Decoding.MaxPixels
	return o
}

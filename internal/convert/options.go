package convert

import (
	"cmp"
	"context"
	"runtime"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/dataset"
	"github.com/batchfs/batchfs/internal/option"
)

// Format is the format of raw samples.
type Format uint8

// The raw formats.
const (
	BMP Format = iota // 24 bits per pixel, bottom-up rows, readable by every program
	PPM               // binary; PGM, a third of the size, for a gray image
)

var formats = []string{"bmp", "ppm"}

// String is the format's name.
func (f Format) String() string { return formats[f] }

// Set implements [flag.Value].
func (f *Format) Set(name string) error {
	return option.Named(f, "raw format", formats, name)
}

// Options say what to make. The zero value stores nothing raw or packed.
type Options struct {
	Shares Shares
	// Auto, if not nil, determines the shares instead, and may take long. It is called once, before
	// anything is written. A run that continues another one uses the recorded shares.
	Auto func(ctx context.Context) (Shares, error)
	// Format of the raw samples.
	Format Format
	// Resize is how raw samples are resized to Height and Width, in pixels: none, stretch,
	// not-larger or not-smaller. These change nothing when they are applied again; with other
	// modes, a mount would show a part of the part.
	Resize        resample.Mode
	Height, Width int
	// Seed determines which samples are raw or packed.
	Seed uint64
	// IgnoreOrientation keeps raw pixels as stored instead of upright.
	IgnoreOrientation bool
	// MaxPixels: larger images count as corrupt, so they are kept as they are; 0:
	// decode.DefaultMaxPixels.
	MaxPixels int64
	// Manifest is the path of the manifest that the dataset was opened from, "" if it was
	// opened as a directory.
	Manifest string
	// Rows, if not nil, opens what the dataset's files say of its samples, for the columns of the
	// result's manifest; see [dataset.FindRows].
	Rows func(ctx context.Context) (*dataset.Rows, error)
	// Part, if not zero, makes only the files of that part of the samples. A run of everything then
	// continues the work.
	Part dataset.Share
	// Merge refuses to continue before all parts are made; the error is then a
	// [dataset.PartsError].
	Merge bool

	// Workers is how many samples are processed at once; 0: one per CPU.
	Workers int
	// Memory is what all samples in conversion may take together: bytes, at least 64 MiB. A
	// sample that needs more ends the run with ErrMemory. 0: 1 GiB.
	Memory int64
	// Announce, if not nil, receives the plan before the work begins, even if the disk lacks
	// the space.
	Announce func(Plan)
	// Progress, if not nil, reports how many of all samples are done. Calls do not overlap, and
	// done never decreases.
	Progress func(done, total int64)

	step func() // called between steps, so that tests can crash there; nil otherwise
}

// filled returns o with the defaults filled in.
func (o Options) filled() Options {
	o.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	o.Memory = cmp.Or(o.Memory, 1<<30)
	o.MaxPixels = cmp.Or(o.MaxPixels, decode.DefaultMaxPixels)
	if o.step == nil {
		o.step = func() {}
	}
	return o
}

// transform is the resampling of the pixels. None of the allowed modes draws random numbers.
func (o *Options) transform() resample.Options {
	return resample.Options{Mode: o.Resize, Height: o.Height, Width: o.Width}
}

func (o *Options) pixels() decode.Options {
	return decode.Options{IgnoreOrientation: o.IgnoreOrientation, MaxPixels: o.MaxPixels}
}

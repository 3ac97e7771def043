package catalog

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/layout"
	"github.com/batchfs/batchfs/shard"
)

// OnError says how a sample that cannot be read is handled.
type OnError uint8

const (
	// Fail makes the whole batch fail with ErrBad.
	Fail OnError = iota
	// Replace puts the next readable sample of the shard's range in its place.
	Replace
	// Zero fills the slot with the fill value and the label -1.
	Zero
)

var onErrors = []string{"fail", "replace", "zero"}

// String is the option's value on the command line.
func (p OnError) String() string { return onErrors[p] }

// Set implements [flag.Value].
func (p *OnError) Set(name string) error {
	return option.Named(p, "on error", onErrors, name)
}

// Options are the settings that the bytes of batches depend on.
type Options struct {
	shard.Config     // which samples are in a batch; New sets Samples and Costs
	Epochs       int // number of epochs with batches

	// How an image is decoded and transformed. If Transform.Mode is None, its Height and Width are
	// those of every batch; 0: of the largest image in each batch. New sets its Seed.
	Decoding  decode.Options
	Transform resample.Options
	FullJPEGs bool // decode JPEGs at full size even if they are shrunk; see resample.Transform.Scale
	OnError   OnError

	// The format of a batch.
	PadMultiple int   // a height and width derived from images are rounded up to a multiple of it; 0 or 1: not rounded
	Fill        uint8 // the value of pixels outside an image, before normalisation
	DType       layout.DType
	Normalize   layout.Normalization // of 8-bit values, channel by channel
	Layout      layout.Order

	Masks   *MaskOptions   // nil: no masks
	Targets *TargetOptions // nil: no targets
	Arrays  []*ArrayOptions
	// Annotations is the size of the annotation table in bytes.
	Annotations int64
	// Condemned says which samples are bad because of their annotations, whatever their files hold,
	// and why.
	Condemned map[int64]string
	// NVJPEG is the result of gpu.Device.OpenNVJPEG if nvJPEG decodes JPEGs on a GPU, to pixels of
	// its own. "": it does not.
	NVJPEG string
}

// MemoryBytes is the memory of masks, targets and arrays.
func (o *Options) MemoryBytes() (n int64) {
	if m := o.Masks; m != nil {
		n += 4 * int64(len(m.Rows))
		if m.Dataset != nil {
			n += m.Dataset.MemoryBytes()
		}
	}
	n += o.Annotations
	for _, a := range o.Arrays {
		n += 4*int64(len(a.Rows)) + a.Dataset.MemoryBytes()
	}
	return n
}

// Validate returns an *option.Error for the first bad setting. Package shard checks Config.
func (o *Options) Validate() error {
	size := &o.Transform
	switch {
	case o.Epochs < 1:
		return option.AtLeast("epochs", int64(o.Epochs), 1)
	case o.Epochs > shard.MaxEpochs:
		return &option.Error{Field: "epochs", Rule: fmt.Sprintf("at most %d", shard.MaxEpochs), Value: strconv.Itoa(o.Epochs)}
	case o.Decoding.MaxPixels < 1:
		return option.AtLeast("max pixels", o.Decoding.MaxPixels, 1)
	case o.PadMultiple < 0:
		return option.AtLeast("pad multiple", int64(o.PadMultiple), 0)
	case min(size.Height, size.Width) < 0 || (size.Height == 0) != (size.Width == 0):
		return &option.Error{Field: "size", Rule: "a height and a width, both at least 1", Value: fmt.Sprintf("%dx%d", size.Height, size.Width)}
	case (o.Masks != nil || o.Arrays != nil) && o.NVJPEG != "": // nvJPEG's workers make only images
		return &option.Error{Field: "nvJPEG", Rule: "images without masks and arrays", Value: o.NVJPEG}
	case o.OnError > Zero:
		return &option.Error{Field: "on error", Rule: "fail, replace or zero", Value: strconv.Itoa(int(o.OnError))}
	}
	return cmp.Or(o.checkArrays(), size.Validate())
}

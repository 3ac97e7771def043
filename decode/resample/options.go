package resample

import (
	"fmt"

	"github.com/batchfs/batchfs/internal/option"
)

// Mode says how a sample is brought to its size.
type Mode uint8

// The modes. All but None filter; only RandomResizedCrop needs random numbers for its window.
const (
	None              Mode = iota // pixels unchanged
	Stretch                       // the whole image, each axis by its own factor
	NotLarger                     // the whole image in proportion, as large as fits inside
	NotSmaller                    // in proportion, as small as covers the size; then the centre
	CenterCrop                    // in proportion, the short side to ResizeTo; then the centre
	RandomResizedCrop             // a random window, stretched
	numModes
)

var modeNames = [numModes]string{"none", "stretch", "not-larger", "not-smaller", "center-crop", "random-resized-crop"}

func (m Mode) String() string {
	if m < numModes {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// Set implements [flag.Value].
func (m *Mode) Set(name string) error {
	return option.Named(m, "mode", modeNames[:], name)
}

// maxSide is the maximum Height or Width, in pixels.
const maxSide = 1 << 20

// The defaults of random-resized-crop, the same as in torchvision and DALI.
var (
	DefaultCropArea  = [2]float64{0.08, 1}
	DefaultCropRatio = [2]float64{3. / 4, 4. / 3}
)

// maxRatio limits CropRatio: no image is that long.
const maxRatio = 1 << 26

// Options are what the samples of a dataset have in common. It is a plain value; every method is
// a pure function of it and its arguments.
type Options struct {
	Mode          Mode
	Height, Width int        // of the result, in pixels; None ignores them
	ResizeTo      int        // CenterCrop: the short side before the crop, no smaller than the result
	CropArea      [2]float64 // RandomResizedCrop: minimum and maximum share of the image's area
	CropRatio     [2]float64 // RandomResizedCrop: minimum and maximum width/height
	Flip          float64    // probability of a mirrored sample, in every mode
	Seed          uint64
}

// Validate returns an [option.Error] for the first invalid field. Other methods are undefined
// for Options that it rejects.
func (o Options) Validate() error {
	refuse := func(field, rule string, value any) error {
		return &option.Error{Field: field, Rule: rule, Value: fmt.Sprint(value)}
	}
	validSide := func(n int) bool { return o.Mode == None || n >= 1 && n <= maxSide }
	crops := o.Mode == RandomResizedCrop
	area, ratio := o.CropArea, o.CropRatio
	switch {
	case o.Mode >= numModes:
		return refuse("mode", fmt.Sprintf("one of %v", modeNames), o.Mode)
	case !validSide(o.Height):
		return refuse("height", fmt.Sprintf("1 to %d", maxSide), o.Height)
	case !validSide(o.Width):
		return refuse("width", fmt.Sprintf("1 to %d", maxSide), o.Width)
	case o.Mode == CenterCrop && !(o.ResizeTo >= max(o.Height, o.Width) && o.ResizeTo <= maxSide):
		return refuse("resize to", fmt.Sprintf("%d, the larger side of the size, to %d", max(o.Height, o.Width), maxSide), o.ResizeTo)
	case crops && !(area[0] > 0 && area[0] <= area[1] && area[1] <= 1):
		return refuse("crop area", "two numbers, the first above 0, the second no smaller and at most 1", area)
	case crops && !(ratio[0] >= 1./maxRatio && ratio[0] <= ratio[1] && ratio[1] <= maxRatio):
		return refuse("crop ratio", "two numbers above 0 (width/height), the second no smaller", ratio)
	case !(o.Flip >= 0 && o.Flip <= 1):
		return refuse("flip", "a probability, 0 to 1", o.Flip)
	}
	return nil
}

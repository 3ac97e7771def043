package resample

import (
	"errors"
	"fmt"
)

// ErrOptions is wrapped by every error about Options.
var ErrOptions = errors.New("resample: bad options")

// MaxSide is the maximum Height or Width, in pixels.
const MaxSide = 1 << 20

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
	CropArea      [2]float64 // RandomResizedCrop: minimum and maximum share of the image's area
	CropRatio     [2]float64 // RandomResizedCrop: minimum and maximum width/height
	Flip          float64    // probability of a mirrored sample, in every mode
	Seed          uint64
}

// Validate returns an error with the first invalid field, the rule and the value. Other methods
// are undefined for Options that it rejects.
func (o Options) Validate() error {
	if o.Mode >= numModes {
		return optionError("mode", fmt.Sprintf("one of %v", modeNames), o.Mode)
	}
	if o.Mode != None {
		for _, side := range [...]struct {
			name  string
			value int
		}{{"height", o.Height}, {"width", o.Width}} {
			if side.value < 1 || side.value > MaxSide {
				return optionError(side.name, fmt.Sprintf("1 to %d", MaxSide), side.value)
			}
		}
	}
	if o.Mode == RandomResizedCrop {
		if lo, hi := o.CropArea[0], o.CropArea[1]; !(lo > 0 && lo <= hi && hi <= 1) {
			return optionError("crop area", "two numbers, the first above 0, the second no smaller and at most 1", o.CropArea)
		}
		if lo, hi := o.CropRatio[0], o.CropRatio[1]; !(lo >= 1./maxRatio && lo <= hi && hi <= maxRatio) {
			return optionError("crop ratio", "two numbers above 0 (width/height), the second no smaller", o.CropRatio)
		}
	}
	if !(o.Flip >= 0 && o.Flip <= 1) {
		return optionError("flip", "a probability, 0 to 1", o.Flip)
	}
	return nil
}

func optionError(field, rule string, value any) error {
	return fmt.Errorf("%w: %s must be %s, not %v", ErrOptions, field, rule, value)
}

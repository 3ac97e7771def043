package resample

import (
	"errors"
	"fmt"
)

// ErrOptions is what every error about Options wraps.
var ErrOptions = errors.New("resample: bad options")

// MaxSide is the largest Height or Width that can be asked for, in pixels.
const MaxSide = 1 << 20

// What random-resized-crop takes unless told otherwise, in torchvision and DALI as here.
var (
	DefaultCropArea  = [2]float64{0.08, 1}
	DefaultCropRatio = [2]float64{3. / 4, 4. / 3}
)

// maxRatio bounds CropRatio: no image is that long.
const maxRatio = 1 << 26

// Options are what the samples of a dataset have in common. A plain value; every
// method is a pure function of it and its arguments.
type Options struct {
	Mode          Mode
	Height, Width int        // pixels to come out at; of no meaning to None
	CropArea      [2]float64 // RandomResizedCrop: least and largest part of the image's area
	CropRatio     [2]float64 // RandomResizedCrop: least and largest width/height
	Flip          float64    // probability of a mirrored sample, in every mode
	Seed          uint64
}

// Validate names the first field that makes no sense, the rule and the value. The methods
// of Options that do not pass it are undefined.
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

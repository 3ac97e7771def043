package resample

import "fmt"

// Mode says how a sample becomes as large as it has to be.
type Mode uint8

// The modes. All but None filter; RandomResizedCrop alone needs random numbers for it.
const (
	None              Mode = iota // every pixel as it is
	Stretch                       // all of the image, each axis by its own factor
	NotLarger                     // all of it in its proportions, as large as fits inside
	NotSmaller                    // in its proportions, as small as covers; then the centre
	RandomResizedCrop             // a random window, stretched
	numModes
)

var modeNames = [numModes]string{"none", "stretch", "not-larger", "not-smaller", "random-resized-crop"}

// String is the mode's name, as ParseMode reads it.
func (m Mode) String() string {
	if m < numModes {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// ParseMode finds a mode by its name.
func ParseMode(name string) (Mode, error) {
	for m, known := range modeNames {
		if name == known {
			return Mode(m), nil
		}
	}
	return None, optionError("mode", fmt.Sprintf("one of %v", modeNames), fmt.Sprintf("%q", name))
}

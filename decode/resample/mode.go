package resample

import "fmt"

// Mode says how a sample is brought to its size.
type Mode uint8

// The modes. All but None filter; only RandomResizedCrop needs random numbers for its window.
const (
	None              Mode = iota // pixels unchanged
	Stretch                       // the whole image, each axis by its own factor
	NotLarger                     // the whole image in proportion, as large as fits inside
	NotSmaller                    // in proportion, as small as covers the size; then the centre
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

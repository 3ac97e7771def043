package archive

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// setText sets a sample's label to the number in text, or else to text as a name.
func (s *scanner) setText(sample *Sample, text string) error {
	whole := strings.TrimSuffix(text, ".0")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err == nil {
		return setNumber(sample, n)
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return fmt.Errorf("label %s is neither a whole number nor a name", text)
	}
	return s.setClass(sample, text)
}

// setClass sets a sample's label to a name. An empty name means no label.
func (s *scanner) setClass(sample *Sample, name string) error {
	if len(name) > maxClass {
		return fmt.Errorf("a label is longer than %d bytes", maxClass)
	}
	known, ok := s.classes[name]
	if !ok {
		known = strings.Clone(name)
		s.classes[known] = known
	}
	sample.Class = known
	return nil
}

// setNumber sets a sample's label to a number. -1 means no label.
func setNumber(sample *Sample, n int64) error {
	if n < -1 || n > math.MaxInt32 {
		return fmt.Errorf("label %d is not from 0 to %d (or -1: none)", n, math.MaxInt32)
	}
	sample.Label = n
	return nil
}

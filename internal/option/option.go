// Package option has the one error type for settings. Each package checks its own options and knows
// nothing of flags; cmd/batchfs finds the flag that belongs to Field.
package option

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize/english"
)

// An Error rejects the value of an option.
type Error struct {
	Field string // in plain words, such as "batch size"
	Rule  string // the requirement, such as "at least 1"
	Value string // the rejected value
}

func (e *Error) Error() string { return fmt.Sprintf("%s must be %s, not %s", e.Field, e.Rule, e.Value) }

// Named sets a value to the index of its name. Types whose values count from 0 use it to implement
// [flag.Value].
func Named[T ~uint8](to *T, field string, names []string, name string) error {
	i := slices.Index(names, name)
	if i < 0 {
		return &Error{field, english.WordSeries(names, "or"), name}
	}
	*to = T(i)
	return nil
}

// AtLeast returns an *Error if the value is below the least one, and nil otherwise.
func AtLeast(field string, value, least int64) error {
	if value >= least {
		return nil
	}
	return &Error{field, fmt.Sprintf("at least %d", least), strconv.FormatInt(value, 10)}
}

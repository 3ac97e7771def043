// Package option has the one error for settings. Each package checks its own options and
// knows nothing of flags; cmd/batchfs finds the flag that belongs to Field.
package option

import (
	"fmt"
	"strconv"
)

// An Error rejects the value of an option.
type Error struct {
	Field string // in plain words, such as "batch size"
	Rule  string // what it must be, such as "at least 1"
	Value string // what it is
}

func (e *Error) Error() string { return fmt.Sprintf("%s must be %s, not %s", e.Field, e.Rule, e.Value) }

// AtLeast returns an *Error if the value is below the least one, and nil otherwise.
func AtLeast(field string, value, least int64) error {
	if value >= least {
		return nil
	}
	return &Error{field, fmt.Sprintf("at least %d", least), strconv.FormatInt(value, 10)}
}

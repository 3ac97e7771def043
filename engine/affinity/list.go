package affinity

import (
	"fmt"
	"strconv"
	"strings"
)

// EntryError is an invalid entry of an affinity list.
type EntryError struct {
	Position int    // of the entry in the list, from 1
	Rule     string // "a decimal CPU number"
	Value    string // the entry, without the blanks around it
}

// Error names the entry, the rule and the value.
func (e *EntryError) Error() string {
	return fmt.Sprintf("entry %d must be %s, not %q", e.Position, e.Rule, e.Value)
}

// entryRule is the rule for every entry, on any machine.
const entryRule = `a decimal CPU number, as in "3,5,6,10", not a range or mask`

// Parse reads a list of CPUs for workers 0, 1, and so on: decimal numbers separated by commas,
// with optional blanks around them. An empty or blank text is no list: nil. The error is an
// [*EntryError]. [Assign] checks whether the machine has such CPUs.
func Parse(list string) ([]int, error) {
	if strings.Trim(list, blanks) == "" {
		return nil, nil
	}
	entries := strings.Split(list, ",")
	cpus := make([]int, len(entries))
	for i, entry := range entries {
		entry = strings.Trim(entry, blanks)
		cpu, ok := number(entry)
		if !ok {
			return nil, &EntryError{Position: i + 1, Rule: entryRule, Value: entry}
		}
		cpus[i] = cpu
	}
	return cpus, nil
}

const blanks = " \t"

// check reports the first entry that is not a CPU of the machine that this process may use.
func check(list []int, m Machine) error {
	for i, cpu := range list {
		var rule string
		switch {
		case cpu < 0 || cpu >= m.Configured:
			rule = fmt.Sprintf("below %d, the number of CPUs configured", m.Configured)
		case !m.Allowed.Has(cpu):
			rule = fmt.Sprintf("one of the CPUs this process may use, %s", m.Allowed)
		default:
			continue
		}
		return &EntryError{Position: i + 1, Rule: rule, Value: strconv.Itoa(cpu)}
	}
	return nil
}

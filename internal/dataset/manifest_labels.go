package dataset

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// labelKind is the type a manifest's format gives a label.
type labelKind uint8

const (
	labelText   labelKind = iota // CSV: numbers if all labels are, else names
	labelNumber                  // a number by type
	labelName                    // a string by type
)

// labelSet numbers a manifest's labels in order of appearance. Whether they are numbers or
// names, and which number each name gets, is known only after the last row.
type labelSet struct {
	ids   map[string]int32
	first []record // the first record of each label, by id, for its text and place
	kind  labelKind
}

// isLabel refuses fractions and lists: as names, each would become a class of its own.
func isLabel(text string) bool {
	if _, whole := parseInteger(text); whole {
		return true
	}
	_, err := strconv.ParseFloat(text, 64)
	return err != nil && text[0] != '[' && text[0] != '{'
}

// noLabel is the error of a value that no class can have.
func (r *record) noLabel(value string) error {
	return fmt.Errorf("%w: %s %s is neither a whole number nor a class name", ErrColumn, r.column, value)
}

// intern returns the id of a record's label, -1 if it has none.
func (l *labelSet) intern(r *record) (int32, error) {
	if r.label == "" {
		return -1, nil
	}
	if !isLabel(r.label) {
		return 0, r.noLabel(strconv.Quote(r.label))
	}
	if len(l.first) > 0 && r.kind != l.kind {
		return 0, errors.New("label: some labels are numbers, others are names")
	}
	l.kind = r.kind
	if id, ok := l.ids[r.label]; ok {
		return id, nil
	}
	if l.ids == nil {
		l.ids = map[string]int32{}
	}
	text, id := strings.Clone(r.label), int32(len(l.first))
	l.ids[text] = id
	l.first = append(l.first, record{label: text, unit: r.unit, line: r.line})
	return id, nil
}

// resolve replaces the ids in a table with the final labels and returns the class names.
func (l *labelSet) resolve(t *table) (classes []string, err error) {
	notNumber := func(r record) bool { _, ok := parseInteger(r.label); return !ok }
	final := make([]int32, len(l.first))
	if l.kind == labelNumber || l.kind == labelText && !slices.ContainsFunc(l.first, notNumber) {
		for id, r := range l.first {
			n, ok := parseInteger(r.label)
			if !ok || n < -1 || n > math.MaxInt32 {
				return nil, r.at(fmt.Errorf("%w: label %q is not a whole number from 0 to %d (or -1: none)", ErrColumn, r.label, math.MaxInt32))
			}
			final[id] = int32(n)
		}
	} else {
		for _, r := range l.first {
			classes = append(classes, r.label)
		}
		slices.SortFunc(classes, CompareNames)
		for label, name := range classes {
			final[l.ids[name]] = int32(label)
		}
	}
	for i := range t.row {
		if id := t.row[i].label; id >= 0 {
			t.row[i].label = final[id]
		}
	}
	return classes, nil
}

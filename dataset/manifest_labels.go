package dataset

import (
	"errors"
	"fmt"
	"math"
	"slices"
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
	ids    map[string]int32
	texts  []string // by id
	lines  []int64  // of first appearance, by id
	unit   string
	number bool // some label is a number by type
	name   bool // some label is a string by type
}

// intern returns the id of a record's label, -1 if it has none.
func (l *labelSet) intern(r *record) (int32, error) {
	if r.label == "" {
		return -1, nil
	}
	l.number = l.number || r.kind == labelNumber
	l.name = l.name || r.kind == labelName
	if l.number && l.name {
		return 0, errors.New("label: some labels are numbers, others are names")
	}
	if id, ok := l.ids[r.label]; ok {
		return id, nil
	}
	if l.ids == nil {
		l.ids, l.unit = map[string]int32{}, r.unit
	}
	text, id := strings.Clone(r.label), int32(len(l.texts))
	l.ids[text] = id
	l.texts = append(l.texts, text)
	l.lines = append(l.lines, r.line)
	return id, nil
}

// resolve replaces the ids in labels with the final labels and returns the class names.
func (l *labelSet) resolve(labels []int32) ([]string, error) {
	defer func() { *l = labelSet{} }()
	if len(l.texts) == 0 {
		return nil, nil
	}
	var final []int32
	var classes []string
	if l.numeric() {
		var err error
		if final, err = l.numbers(); err != nil {
			return nil, err
		}
	} else {
		final, classes = l.names()
	}
	for i, id := range labels {
		if id >= 0 {
			labels[i] = final[id]
		}
	}
	return classes, nil
}

func (l *labelSet) numeric() bool {
	if l.number || l.name {
		return l.number
	}
	return !slices.ContainsFunc(l.texts, func(t string) bool {
		_, ok := parseInteger(t)
		return !ok
	})
}

func (l *labelSet) numbers() ([]int32, error) {
	final := make([]int32, len(l.texts))
	for id, text := range l.texts {
		n, ok := parseInteger(text)
		if !ok || n < -1 || n > math.MaxInt32 {
			return nil, lineError(l.unit, l.lines[id],
				fmt.Errorf("label %q is not a whole number from 0 to %d (or -1: none)", text, math.MaxInt32))
		}
		final[id] = int32(n)
	}
	return final, nil
}

func (l *labelSet) names() (final []int32, classes []string) {
	classes = slices.Clone(l.texts)
	slices.SortFunc(classes, CompareNames)
	final = make([]int32, len(classes))
	for label, name := range classes {
		final[l.ids[name]] = int32(label)
	}
	return final, classes
}

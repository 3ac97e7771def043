package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ClassesText is one class name per line, in label order; nil without classes. A name with a
// control character or a backslash is escaped like a JSON string, without the quotes. So line k is
// always class k, a line with a backslash is always JSON, and any other line is literal. Bytes that
// are not UTF-8 stay as they are.
func ClassesText(names []string) []byte {
	var text []byte
	for _, name := range names {
		odd := strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '\\' })
		for _, c := range []byte(name) {
			if !odd || c >= ' ' && c != '"' && c != '\\' {
				text = append(text, c)
				continue
			}
			quoted, _ := json.Marshal(string(c)) // a string always encodes
			text = append(text, quoted[1:len(quoted)-1]...)
		}
		text = append(text, '\n')
	}
	return text
}

// escaped matches a run of JSON escapes, or a backslash that starts none.
var escaped = regexp.MustCompile(`(\\u[0-9a-fA-F]{4})+|\\.?`)

// ParseClasses is the inverse of ClassesText. The error names the first line that is not a class
// name.
func ParseClasses(text []byte) (names []string, err error) {
	text = bytes.TrimPrefix(text, []byte("\xEF\xBB\xBF"))
	known := map[string]int{}
	for line := range bytes.Lines(text) {
		name := escaped.ReplaceAllStringFunc(strings.TrimRight(string(line), "\r\n"), func(s string) string {
			var plain string
			if e := json.Unmarshal([]byte(`"`+s+`"`), &plain); e != nil && err == nil {
				err = fmt.Errorf("line %d: a backslash begins an escape as in JSON, and is itself written twice", len(names)+1)
			}
			return plain
		})
		names = append(names, name)
		first, twice := known[name]
		switch {
		case err != nil:
			return nil, err
		case name == "":
			return nil, fmt.Errorf("line %d is empty", len(names))
		case twice:
			return nil, fmt.Errorf("line %d: %q is in line %d already", len(names), name, first)
		}
		known[name] = len(names)
	}
	if names == nil {
		return nil, errors.New("it is empty")
	}
	return names, nil
}

// partWords are the words that make up the names of folders that hold parts of a dataset.
var partWords = slices.Concat(splitWords, strings.Fields(`data dataset
	image images img imgs jpegimages jpegs leftimgbit frames mask masks annotation annotations imagesets label labels gt ground truth groundtruth
	gtfine gtcoarse segmentation segmentations segmentationclass segmentationobject bbox bboxes boxes`))

// likely are beginnings of the words of folders that users probably mean, the likeliest first.
var likely = []string{"train", "im", "jp", "left", "frames", "data"}

// partOf returns the words of a folder's name without digits, or nil unless all are partWords.
func partOf(folder string) []string {
	letters := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, strings.ToLower(folder))
	words := strings.FieldsFunc(letters, func(r rune) bool { return r < 'a' || r > 'z' })
	if slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(partWords, w) }) {
		return nil
	}
	return words
}

// checkFolders refuses folders that are probably not classes: every label would be wrong.
func checkFolders(x *index, src *source) error {
	if src.manifest != "" || x.Ordered || x.classes == nil {
		return nil
	}
	with := make([]bool, len(x.classes)) // which folders have images
	for _, row := range x.table.row {
		if row.label >= 0 {
			with[row.label] = true
		}
	}
	e := &AmbiguousError{Path: src.name(), Folders: true}
	best := len(likely) + 1
	for label, folder := range x.classes {
		words := partOf(folder)
		if len(words) == 0 && with[label] {
			return nil
		}
		if len(words) == 0 {
			continue
		}
		e.Parts = append(e.Parts, folder)
		rank := slices.IndexFunc(likely, func(start string) bool {
			return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, start) })
		})
		if rank < 0 {
			rank = len(likely)
		}
		if with[label] && rank < best {
			e.Meant, best = strings.TrimPrefix(x.Prefix, src.within)+folder, rank
		}
	}
	return e
}

// check refuses classes that are probably a mistake, or that do not fit Options.Classes.
func (p *opening) check(x *index) error {
	if !p.AsClasses {
		if err := checkFolders(x, p.src); err != nil {
			return err
		}
	}
	if p.Classes == nil {
		return nil
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w: %s", p.src.name(), ErrClasses, fmt.Sprintf(format, args...))
	}
	labeled := false
	for i, row := range x.table.row {
		labeled = labeled || row.label >= 0
		if x.classes == nil && int(row.label) >= len(p.Classes) {
			return fail("%s has label %d, but there are %d classes", x.table.path(i), row.label, len(p.Classes))
		}
	}
	if !labeled && p.src.line == 0 { // in a list, other datasets may have labels
		return fail("the images have no labels")
	}
	place := map[string]int32{}
	for label, name := range p.Classes {
		place[name] = int32(label)
	}
	for _, name := range x.classes {
		label, ok := place[name]
		if !ok {
			return fail("it lacks class %q", name)
		}
		p.places = append(p.places, label)
	}
	return nil
}

// fix gives a checked dataset the classes of Options.Classes. The stored index keeps the dataset's
// own classes, and so serves any list.
func (p *opening) fix(x *index) {
	for i := range x.table.row {
		if row := &x.table.row[i]; row.label >= 0 && p.places != nil {
			row.label = p.places[row.label]
		}
	}
	x.classes = p.Classes
	x.Digest = digest(x.table, x.classes)
}

package dataset

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// maxReason bounds, in bytes, what one bad file may add to the table, the index and a log line.
const maxReason = 300

// problems collects bad rows in any order; the table needs them sorted.
type problems struct {
	rows  []badRow
	texts []string
	ids   map[string]uint32
}

func (p *problems) add(row uint32, text string, unread bool) {
	id, ok := p.ids[text]
	if !ok {
		if p.ids == nil {
			p.ids = map[string]uint32{}
		}
		id = uint32(len(p.texts))
		text = strings.Clone(text)
		p.ids[text] = id
		p.texts = append(p.texts, text)
	}
	p.rows = append(p.rows, badRow{row, id, unread})
}

// keep copies the table's bad rows except those in drop, which is ascending.
func (p *problems) keep(s *store, drop []uint32) {
	for _, b := range s.bad {
		if _, found := slices.BinarySearch(drop, b.row); !found {
			p.add(b.row, s.reasons[b.reason], b.unread)
		}
	}
}

func (p *problems) merge(q *problems) {
	for _, b := range q.rows {
		p.add(b.row, q.texts[b.reason], b.unread)
	}
}

// store moves the collected rows into the table.
func (p *problems) store(s *store) {
	slices.SortFunc(p.rows, func(a, b badRow) int { return cmp.Compare(a.row, b.row) })
	s.bad, s.reasons = slices.Clip(p.rows), p.texts
}

// reason is the text that users read for err: one bounded line of valid UTF-8.
func reason(err error) string {
	var errno unix.Errno
	text := err.Error()
	if errors.As(err, &errno) {
		text = errno.Error()
	}
	text = strings.ToValidUTF8(text, "?")
	text = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxReason {
		text = text[:maxReason]
		for !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
	}
	if text == "" {
		text = "cannot be read"
	}
	return text
}

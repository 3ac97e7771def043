package dataset

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// UnknownTime is the Identity.ModTime of an identity that is not known yet.
const UnknownTime = math.MinInt64

const (
	// maxPath is PATH_MAX without its NUL: the kernel opens no longer paths.
	maxPath = 4095
	// baseShift: one 64-bit base serves 1<<baseShift rows. Their offsets from it fit in 32 bits
	// because no path is longer than maxPath.
	baseShift = 16
)

// store is the table of samples. Rows are appended, then filled by a scan (each row by one
// goroutine), then only read, except for identities, which may still be learned or replaced.
type store struct {
	paths   []byte   // every path, each followed by a NUL
	starts  []uint32 // row -> start in paths, from bases[row>>baseShift]
	bases   []int64
	labels  []int32 // -1: none
	heights []int32 // after orientation; 0: unknown
	widths  []int32
	orients []uint8  // EXIF 1..8; 0: unknown
	formats []uint8  // into formatNames; 0: unknown
	sizes   []int64  // bytes; 0 while unknown
	mtimes  []int64  // ns; UnknownTime: identity unknown
	bad     []badRow // ascending rows
	reasons []string // reasons of bad rows, without duplicates

	formatNames []string // [0] is ""
}

// badRow is a sample that cannot be read, and why. unread means that the machine is at fault
// rather than the file. The index does not store unread: files that could not be read when it
// was made are tried again before it is used.
type badRow struct {
	row    uint32
	reason uint32
	unread bool
}

// newStore makes an empty table with room for rows whose paths, without NULs, total pathBytes;
// 0 if unknown.
func newStore(rows int, pathBytes int64) *store {
	return &store{
		paths:       make([]byte, 0, pathBytes+int64(rows)),
		starts:      make([]uint32, 0, rows),
		bases:       make([]int64, 0, (rows+1<<baseShift-1)>>baseShift),
		labels:      make([]int32, 0, rows),
		heights:     make([]int32, 0, rows),
		widths:      make([]int32, 0, rows),
		orients:     make([]uint8, 0, rows),
		formats:     make([]uint8, 0, rows),
		sizes:       make([]int64, 0, rows),
		mtimes:      make([]int64, 0, rows),
		formatNames: []string{""},
	}
}

// appendRow appends a sample with only its path, which is copied, and its label known.
func (s *store) appendRow(path string, label int32) error {
	row := len(s.starts)
	if row == math.MaxInt32 {
		return errors.New("more than 2147483647 samples")
	}
	if row>>baseShift == len(s.bases) {
		s.bases = append(s.bases, int64(len(s.paths)))
	}
	s.starts = append(s.starts, uint32(int64(len(s.paths))-s.bases[row>>baseShift]))
	s.paths = append(append(s.paths, path...), 0)
	s.labels = append(s.labels, label)
	s.heights = append(s.heights, 0)
	s.widths = append(s.widths, 0)
	s.orients = append(s.orients, 0)
	s.formats = append(s.formats, 0)
	s.sizes = append(s.sizes, 0)
	s.mtimes = append(s.mtimes, UnknownTime)
	return nil
}

// clip frees excess capacity left by growing.
func (s *store) clip() {
	s.paths = clip(s.paths)
	s.starts = clip(s.starts)
	s.labels = clip(s.labels)
	s.heights = clip(s.heights)
	s.widths = clip(s.widths)
	s.orients = clip(s.orients)
	s.formats = clip(s.formats)
	s.sizes = clip(s.sizes)
	s.mtimes = clip(s.mtimes)
}

func clip[T any](v []T) []T {
	if cap(v)-len(v) <= len(v)/16 {
		return v
	}
	return append(make([]T, 0, len(v)), v...)
}

func (s *store) rows() int { return len(s.starts) }

func (s *store) start(i int) int64 { return s.bases[i>>baseShift] + int64(s.starts[i]) }

// path shares the table's memory, which is never overwritten.
func (s *store) path(i int) string {
	start, end := s.start(i), int64(len(s.paths))
	if i+1 < len(s.starts) {
		end = s.start(i + 1)
	}
	return unsafe.String(unsafe.SliceData(s.paths[start:]), end-1-start)
}

// cpath is the NUL-terminated path for the kernel.
func (s *store) cpath(i int) *byte { return &s.paths[s.start(i)] }

func (s *store) pathBytes() int64 { return int64(len(s.paths) - len(s.starts)) }

// internFormat returns the number of a format name. It copies the name, which may share a
// page's memory. Not for concurrent use.
func (s *store) internFormat(name string) (uint8, error) {
	if k := slices.Index(s.formatNames, name); k >= 0 {
		return uint8(k), nil
	}
	if len(s.formatNames) > math.MaxUint8 {
		return 0, fmt.Errorf("more than %d formats", math.MaxUint8)
	}
	s.formatNames = append(s.formatNames, strings.Clone(name))
	return uint8(len(s.formatNames) - 1), nil
}

// identity returns size and time, and whether they are known.
func (s *store) identity(i int) (Identity, bool) {
	id := Identity{Size: s.sizes[i], ModTime: s.mtimes[i]}
	return id, id.Known()
}

func (s *store) setIdentity(i int, id Identity) { s.sizes[i], s.mtimes[i] = id.Size, id.ModTime }

// problem returns why row i cannot be read, "" if it can, and whether the machine is at fault.
func (s *store) problem(i int) (text string, unread bool) {
	k, found := slices.BinarySearchFunc(s.bad, uint32(i), func(b badRow, row uint32) int { return cmp.Compare(b.row, row) })
	if !found {
		return "", false
	}
	return s.reasons[s.bad[k].reason], s.bad[k].unread
}

// unsettled returns the rows whose file could not even be opened or read. Only another try
// shows whether that has changed.
func (s *store) unsettled() (rows []uint32) {
	for _, b := range s.bad {
		if s.mtimes[b.row] == UnknownTime {
			rows = append(rows, b.row)
		}
	}
	return rows
}

// unprobed returns the rows whose header is not known.
func (s *store) unprobed() []uint32 {
	rows := make([]uint32, 0, bytes.Count(s.formats, []byte{0}))
	for i, f := range s.formats {
		if f == 0 {
			rows = append(rows, uint32(i))
		}
	}
	return rows
}

// memory returns the table's size in bytes.
func (s *store) memory() int64 {
	n := cap(s.paths) + 4*cap(s.starts) + 8*cap(s.bases) + 4*cap(s.labels) +
		4*cap(s.heights) + 4*cap(s.widths) + cap(s.orients) + cap(s.formats) +
		8*cap(s.sizes) + 8*cap(s.mtimes) + int(unsafe.Sizeof(badRow{}))*cap(s.bad)
	for _, texts := range [][]string{s.reasons, s.formatNames} {
		for _, t := range texts {
			n += len(t) + int(unsafe.Sizeof(t))
		}
	}
	return int64(n)
}

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
	text = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "")
	}
	return cmp.Or(text, "cannot be read")
}

package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// UnknownTime is the Identity.ModTime of an identity that is not known yet.
const UnknownTime = math.MinInt64

const (
	maxPath   = 4095 // PATH_MAX without its NUL: the kernel opens no longer paths
	maxReason = 300  // bytes; what one bad file may add to the table, the index and a log line
)

// store is the table of samples. Rows are appended, then filled by a scan (each row by one
// goroutine), then only read, except for identities, which may still be learned or replaced.
type store struct {
	paths       []byte // every path, each followed by a NUL
	row         []sample
	bad         map[uint32]badRow // by row
	reasons     []string          // reasons of bad rows, without duplicates
	reasonIDs   map[string]uint32
	formatNames []string // [0] is ""
}

// sample is a row, without anything for the garbage collector to scan.
type sample struct {
	start   int64 // of its path in paths
	size    int64 // bytes; 0 while unknown
	modTime int64 // ns; UnknownTime: identity unknown
	label   int32 // -1: none
	height  int32 // after orientation; 0: unknown
	width   int32
	orient  uint8 // EXIF 1..8; 0: unknown
	format  uint8 // into formatNames; 0: unknown
}

// badRow is why a sample cannot be read. unread means that the machine is at fault rather than
// the file. The index does not store unread: files that could not be read when it was made are
// tried again before it is used.
type badRow struct {
	reason uint32
	unread bool
}

// newStore makes an empty table with room for rows whose paths, without NULs, total pathBytes;
// 0 if unknown.
func newStore(rows int, pathBytes int64) *store {
	return &store{
		paths: make([]byte, 0, pathBytes+int64(rows)), row: make([]sample, 0, rows), formatNames: []string{""},
		bad: map[uint32]badRow{}, reasonIDs: map[string]uint32{},
	}
}

// appendRow appends a sample with only its path, which is copied, and its label known.
func (s *store) appendRow(path string, label int32) error {
	if len(s.row) == math.MaxInt32 {
		return errors.New("more than 2147483647 samples")
	}
	s.row = append(s.row, sample{start: int64(len(s.paths)), label: label, modTime: UnknownTime})
	s.paths = append(append(s.paths, path...), 0)
	return nil
}

// clip frees excess capacity left by growing.
func (s *store) clip() {
	s.paths = append(make([]byte, 0, len(s.paths)), s.paths...)
	s.row = append(make([]sample, 0, len(s.row)), s.row...)
}

func (s *store) rows() int { return len(s.row) }

// path shares the table's memory, which is never overwritten.
func (s *store) path(i int) string {
	start, end := s.row[i].start, int64(len(s.paths))
	if i+1 < len(s.row) {
		end = s.row[i+1].start
	}
	return unsafe.String(unsafe.SliceData(s.paths[start:]), end-1-start)
}

// cpath is the NUL-terminated path for the kernel.
func (s *store) cpath(i int) *byte { return &s.paths[s.row[i].start] }

func (s *store) pathBytes() int64 { return int64(len(s.paths) - len(s.row)) }

// internFormat returns the number of a format name, which it copies. Not for concurrent use.
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
	id := Identity{Size: s.row[i].size, ModTime: s.row[i].modTime}
	return id, id.Known()
}

func (s *store) setIdentity(i int, id Identity) {
	s.row[i].size, s.row[i].modTime = id.Size, id.ModTime
}

// addBad records why row i cannot be read. Not for concurrent use.
func (s *store) addBad(i int, text string, unread bool) {
	id, known := s.reasonIDs[text]
	if !known {
		id, text = uint32(len(s.reasons)), strings.Clone(text)
		s.reasonIDs[text] = id
		s.reasons = append(s.reasons, text)
	}
	s.bad[uint32(i)] = badRow{id, unread}
}

// problem returns why row i cannot be read, "" if it can, and whether the machine is at fault.
func (s *store) problem(i int) (text string, unread bool) {
	b, bad := s.bad[uint32(i)]
	if !bad {
		return "", false
	}
	return s.reasons[b.reason], b.unread
}

// unsettled returns the rows whose file could not even be opened or read. Only another try
// shows whether that has changed.
func (s *store) unsettled() (rows []int) {
	for _, i := range slices.Sorted(maps.Keys(s.bad)) {
		if s.row[i].modTime == UnknownTime {
			rows = append(rows, int(i))
		}
	}
	return rows
}

// unprobed returns the rows whose header is not known.
func (s *store) unprobed() (rows []int) {
	for i := range s.row {
		if s.row[i].format == 0 {
			rows = append(rows, i)
		}
	}
	return rows
}

// memory returns the table's size in bytes.
func (s *store) memory() int64 {
	const perBad = 24 // in a map, on average
	n := cap(s.paths) + cap(s.row)*int(unsafe.Sizeof(sample{})) + perBad*len(s.bad)
	for _, text := range slices.Concat(s.reasons, s.formatNames) {
		n += len(text) + 3*int(unsafe.Sizeof(text))
	}
	return int64(n)
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

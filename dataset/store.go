package dataset

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"unsafe"
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
// goroutine), then only read. Only identities may still be learned or replaced later, so they
// are loaded and stored atomically.
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

// appendPath appends only to the path column; path is copied.
func (s *store) appendPath(path string) {
	row := len(s.starts)
	if row>>baseShift == len(s.bases) {
		s.bases = append(s.bases, int64(len(s.paths)))
	}
	s.starts = append(s.starts, uint32(int64(len(s.paths))-s.bases[row>>baseShift]))
	s.paths = append(s.paths, path...)
	s.paths = append(s.paths, 0)
}

// appendRow appends a sample with only its path and label known.
func (s *store) appendRow(path string, label int32) error {
	if len(s.starts) == math.MaxInt32 {
		return errors.New("more than 2147483647 samples")
	}
	s.appendPath(path)
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

func (s *store) end(i int) int64 {
	if i+1 == len(s.starts) {
		return int64(len(s.paths)) - 1
	}
	return s.start(i+1) - 1
}

// path shares the table's memory, which is never overwritten.
func (s *store) path(i int) string {
	start, end := s.start(i), s.end(i)
	return unsafe.String(unsafe.SliceData(s.paths[start:]), end-start)
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

// identity returns size and time, and whether they are known. The size is published before the
// time, so a reader never sees a half-learned identity. A replacement of a known identity can
// be seen half done; see Dataset.Same.
func (s *store) identity(i int) (Identity, bool) {
	t := atomic.LoadInt64(&s.mtimes[i])
	if t == UnknownTime {
		return Identity{ModTime: UnknownTime}, false
	}
	return Identity{Size: atomic.LoadInt64(&s.sizes[i]), ModTime: t}, true
}

func (s *store) setIdentity(i int, id Identity) {
	atomic.StoreInt64(&s.sizes[i], id.Size)
	atomic.StoreInt64(&s.mtimes[i], id.ModTime)
}

// problem returns why row i cannot be read, "" if it can, and whether the machine is at fault.
func (s *store) problem(i int) (text string, unread bool) {
	k := sort.Search(len(s.bad), func(k int) bool { return int(s.bad[k].row) >= i })
	if k == len(s.bad) || int(s.bad[k].row) != i {
		return "", false
	}
	return s.reasons[s.bad[k].reason], s.bad[k].unread
}

// unsettled returns the rows whose file could not even be opened or read. Only another try
// shows whether that has changed.
func (s *store) unsettled() []uint32 {
	var rows []uint32
	for _, b := range s.bad {
		if s.mtimes[b.row] == UnknownTime {
			rows = append(rows, b.row)
		}
	}
	return rows
}

// unprobed returns the rows whose header is not known.
func (s *store) unprobed() []uint32 {
	n := 0
	for _, f := range s.formats {
		if f == 0 {
			n++
		}
	}
	rows := make([]uint32, 0, n)
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

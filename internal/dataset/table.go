package dataset

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"unique"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/internal/archive"
)

// UnknownTime is the Identity.ModTime of an identity that is not known yet.
const UnknownTime = math.MinInt64

const (
	maxPath   = 4095 // PATH_MAX without its NUL: the kernel opens no longer paths
	maxReason = 300  // bytes; what one bad file may add to the table, the index and a log line
)

// formats are the formats of samples. Rows and stored indexes hold positions in it, so new formats
// come last. The first stands for an unknown format; mask8 to maskrgb are masks, by their values.
var formats = []string{"", "jpeg", "png", "bmp", "pnm", "webp", "packed", "mask8", "mask16", "maskrgb", "text", "array"}

// ofImages is how many formats manifests may name.
const ofImages = 7

// formatNumber returns the number of a format, 0 if there is no such format.
func formatNumber(name string) (number uint8, ok bool) {
	k := slices.Index(formats, name)
	return uint8(max(k, 0)), k >= 0
}

// table holds the samples. Rows are appended, then filled by a scan (each row by one goroutine),
// then only read, except for identities, which may be learned or replaced later.
type table struct {
	paths []byte // every path
	row   []sample
	mu    sync.Mutex        // guards identities that change, and what a scan learns row by row
	bad   map[uint32]badRow // by row

	objects  []object // hold the samples; none: each is a file or object of its own
	members  []member // by row, if there are objects; object is -1 in rows that are files of their own
	versions versions // of samples that are objects in a store
}

// sample is a row. It has no pointers that the garbage collector would scan.
type sample struct {
	start  int64 // of its path in paths
	id     Identity
	label  int32 // -1: none
	height int32 // after orientation; 0: unknown
	width  int32
	orient uint8 // EXIF 1..8; 0: unknown
	format uint8 // into formats
}

// badRow says why a sample cannot be read. unread means that the machine is at fault, not the file.
// The index does not store unread rows as bad: an opening tries such files again before it uses the
// index.
type badRow struct {
	reason unique.Handle[string]
	unread bool
}

// newTable makes an empty table with room for rows whose paths total pathBytes; 0: unknown.
func newTable(rows int, pathBytes int64) *table {
	return &table{paths: make([]byte, 0, pathBytes), row: make([]sample, 0, rows), bad: map[uint32]badRow{}}
}

// appendRow appends a sample, of which only the path, which it copies, and the label are known.
func (s *table) appendRow(path string, label int32) error {
	if len(s.row) == math.MaxInt32 {
		return errors.New("more than 2147483647 samples")
	}
	s.row = append(s.row, sample{start: int64(len(s.paths)), label: label, id: unknown})
	s.paths = append(s.paths, path...)
	return nil
}

// clip frees excess capacity left by growing. A little is not worth a copy of everything.
func (s *table) clip() {
	s.paths, s.row, s.members = clipped(s.paths), clipped(s.row), clipped(s.members)
	s.versions = versions{clipped(s.versions.at), clipped(s.versions.text)}
}

func clipped[T any](s []T) []T {
	if cap(s)-len(s) <= len(s)/8 {
		return s
	}
	return slices.Clone(s)
}

func (s *table) rows() int { return len(s.row) }

// path shares the table's memory, which is never overwritten.
func (s *table) path(i int) string {
	start, end := s.row[i].start, int64(len(s.paths))
	if i+1 < len(s.row) {
		end = s.row[i+1].start
	}
	return unsafe.String(unsafe.SliceData(s.paths[start:]), end-start)
}

// file returns the path of the file that holds row i.
func (s *table) file(i int) string {
	if s.isMember(i) {
		return s.objects[s.members[i].object].name
	}
	return s.path(i)
}

// isMember says whether row i is in a file that holds many samples.
func (s *table) isMember(i int) bool { return s.members != nil && s.members[i].object >= 0 }

// place returns where in its file row i is, and the file's identity. A nil place means the whole
// file.
func (s *table) place(i int) (p *archive.Place, whole Identity) {
	if !s.isMember(i) {
		return nil, unknown
	}
	m := &s.members[i]
	return &m.Place, s.objects[m.object].id
}

// samePlace says whether row i and row k of another table are at the same place in the same version
// of an object.
func (s *table) samePlace(i int, other *table, k int) bool {
	if s.members == nil || other.members == nil {
		return s.members == nil && other.members == nil && s.versions.get(i) == other.versions.get(k)
	}
	m, n := &s.members[i], &other.members[k]
	return m.Place == n.Place && s.objects[m.object] == other.objects[n.object]
}

// byPath returns the row of each path.
func (s *table) byPath() map[string]int {
	rows := make(map[string]int, s.rows())
	for i := range s.rows() {
		rows[s.path(i)] = i
	}
	return rows
}

// part returns a table of the rows from lo to hi-1.
func (s *table) part(lo, hi int) *table {
	t := newTable(hi-lo, 0)
	for i := lo; i < hi; i++ {
		t.extend(s, i, s.path(i))
	}
	return t
}

// extend appends row i of another table, with a path joined from parts, but without its place in an
// object.
func (s *table) extend(from *table, i int, path ...string) {
	k := len(s.row)
	s.row = append(s.row, from.row[i])
	s.row[k].start = int64(len(s.paths))
	for _, part := range path {
		s.paths = append(s.paths, part...)
	}
	s.takeRest(k, from, i)
}

// takeHeader copies the facts about row k of another table to row i. Other goroutines may read
// paths and fill in other rows meanwhile.
func (s *table) takeHeader(i int, from *table, k int) {
	row, old := &s.row[i], &from.row[k]
	row.id, row.height, row.width, row.orient, row.format = old.id, old.height, old.width, old.orient, old.format
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takeRest(i, from, k)
}

func (s *table) takeRest(i int, from *table, k int) {
	if b, bad := from.bad[uint32(k)]; bad {
		s.bad[uint32(i)] = b
	}
	if v := from.versions.get(k); v != "" && v != s.versions.get(i) {
		_ = s.versions.set(i, v) // cannot fail: the length was checked before
	}
}

// learn says whether id is the identity of row i. If the index lacks the identity, learn records
// it, and its version in a store, so that later changes are noticed.
func (s *table) learn(i int, id Identity, version string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := &s.row[i].id
	if !want.Known() {
		if *want = id; version != "" {
			_ = s.versions.set(i, version) // cannot fail: the length was checked before
		}
	}
	return *want == id
}

func (s *table) format(i int) string { return formats[s.row[i].format] }

// addBad records why row i cannot be read.
func (s *table) addBad(i int, text string, unread bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad[uint32(i)] = badRow{unique.Make(text), unread}
}

// problem returns why row i cannot be read, if the machine (unread) or the file (!unread) is at
// fault; else "".
func (s *table) problem(i int, unread bool) string {
	if b, bad := s.bad[uint32(i)]; bad && b.unread == unread {
		return b.reason.Value()
	}
	return ""
}

// unsettled returns the rows whose file could not be opened or read. Only another try shows whether
// that has changed.
func (s *table) unsettled() (rows []int) {
	for _, i := range slices.Sorted(maps.Keys(s.bad)) {
		if !s.row[i].id.Known() {
			rows = append(rows, int(i))
		}
	}
	return rows
}

// unprobed returns the rows whose header is unknown, but can be read.
func (s *table) unprobed() (rows []int) {
	for i := range s.row {
		_, bad := s.bad[uint32(i)]
		if !bad && (s.row[i].format == 0 || s.versions.at != nil && !s.row[i].id.Known()) {
			rows = append(rows, i)
		}
	}
	return rows
}

// memory returns the table's size in bytes.
func (s *table) memory() int64 {
	const perBad = 24 // bytes of a map entry, on average
	n := cap(s.paths) + cap(s.row)*int(unsafe.Sizeof(sample{})) + perBad*len(s.bad)
	n += cap(s.members)*int(unsafe.Sizeof(member{})) + cap(s.versions.text) + 8*cap(s.versions.at)
	for _, o := range s.objects {
		n += int(unsafe.Sizeof(o)) + len(o.name) + len(o.version)
	}
	reasons := map[unique.Handle[string]]bool{}
	for _, b := range s.bad {
		reasons[b.reason] = true
	}
	for r := range reasons {
		n += len(r.Value()) + 3*int(unsafe.Sizeof(r))
	}
	return int64(n)
}

// reason returns err as text for users: one line of valid UTF-8, of bounded length.
func reason(err error) string {
	text := err.Error()
	if errno, ok := errors.AsType[unix.Errno](err); ok {
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

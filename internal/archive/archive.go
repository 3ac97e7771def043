package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/batchfs/batchfs/internal/fault"
)

// [Scan] and [Place.Unpack] return ErrBad, wrapped, if the archive itself is at fault: it is
// damaged, or of an unusable kind. Any other error comes from the reader or the context.
var ErrBad = fault.New(fault.File, "bad archive")

// ErrLabels comes with ErrBad if another column of labels may make the archive usable.
var ErrLabels = errors.New("its labels cannot be used")

// NoLabel, as the column of labels, means that no column has them, unless one has this name.
const NoLabel = "none"

// Contents is what an archive holds.
type Contents struct {
	Kind string // "tar", "webdataset", "zip", "parquet", "mds", "tfrecord" or "beton"

	// Ordered says that the samples have the archive's own order. Otherwise they are files in
	// directories, and their names determine order and labels as in a file system.
	Ordered bool

	Classes  []string        // in the order of labels, if the format names them
	Samples  []Sample        // in the archive's order
	Ignored  map[string]int  // number of files that are not samples, by [ExtensionKey]
	Folders  map[string]bool // not hidden, even without samples; unused if Ordered
	Unended  bool            // a tar, or one inside it, has no end mark: it may have been cut off between two members
	Numbers  []string        // columns of whole numbers, if none has the labels
	Problems map[int]string  // why a sample cannot be read, by position in Samples; its Place is empty
}

// Sample is an image in an archive.
type Sample struct {
	Name  string // a relative path, unique in the archive
	Label int64  // from 0 to the largest int32; -1 for none
	Class string // the label as a name, if the archive has no numbers; "" for none
	Place
}

// Options are the settings of [Scan].
type Options struct {
	// Image and Label name the fields with the image and the label: extensions in a WebDataset,
	// keys of its JSON, columns, features. "" finds them by their usual names. The field of a
	// WebDataset need not be an image. Rows without the named image are left out; the names of the
	// others end with it, as names of members do. The label may be [NoLabel].
	Image, Label string

	// Block is the minimal number of bytes per read: 0 means 4 KiB, which suits a local file. Over
	// a network it should be some MiB.
	Block int

	// Memory, if not nil, is called before that many bytes are allocated to read into, and with a
	// negative number after they were freed. It may wait. Scan returns its error unchanged. What
	// Scan still holds when it returns is freed without a call.
	Memory func(n int64) error

	// Room is how many more bytes may be held to read an archive ahead in blocks, if it is read
	// from front to back. With less than two blocks, nothing is read ahead.
	Room int64

	// Ahead, if not nil, is what will probably be read, in order and within the archive; see
	// [ReadDALI]. It is read ahead, as many spans at a time as fit into Block. It does not affect
	// what Scan finds. Unfit, if not nil, is called if little of it was needed.
	Ahead []Span
	Unfit func()

	// Seen, if not nil, gets the part of a sample's beginning that is in memory, so that it need
	// not be read again: up to Length bytes, valid during the call. It is for samples that are
	// Plain. Some of them may be missing, and some files may turn out not to be samples.
	Seen func(at Place, data []byte)

	// Progress, if not nil, gets at each sample the position in the archive.
	Progress func(done, total int64)
}

// A scanner finds the samples of an archive of one kind.
type scanner struct {
	*window
	Options
	Contents
	classes map[string]string // class names seen, to keep one copy of each
}

// methods scan archives, by extension.
var methods = map[string]func(*scanner) error{
	".tar": (*scanner).tar, ".zip": (*scanner).zip, ".parquet": (*scanner).parquet,
	".mds": (*scanner).mds, ".mds.zstd": (*scanner).mds, ".beton": (*scanner).beton,
}

// compressed are the extensions of archives that must be unpacked completely to find anything.
var compressed = strings.Fields(`.tar.gz .tgz .tar.bz2 .tbz2 .tar.xz .txz .tar.zst .tzst .tar.lz4
	.mds.gz .mds.br .mds.bz2 .mds.snappy .tfrecord.gz .tfrecords.gz`)

var errCompressed = errors.New("it is compressed as a whole; unpack it, or write it without compression")

// refuseCompressed looks at the first bytes, since not every compressed archive has a name that
// says so.
func (s *scanner) refuseCompressed() error {
	const bzip2 = "BZh"
	b, err := s.bytes(0, int(min(s.size, 10)))
	for _, mark := range []string{"\x1f\x8b\x08", bzip2, "\xfd7zX", "\x28\xb5\x2f\xfd", "\x04\x22\x4d\x18"} {
		if strings.HasPrefix(string(b), mark) && (mark != bzip2 || strings.HasSuffix(string(b), "1AY&SY")) {
			return errCompressed
		}
	}
	return err
}

// method returns the method that scans archives of a name, nil if the name is not an archive's.
func method(name string) func(*scanner) error {
	name = strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])
	for _, ext := range compressed {
		if strings.HasSuffix(name, ext) {
			return func(*scanner) error { return errCompressed }
		}
	}
	for ext, scan := range methods {
		if strings.HasSuffix(name, ext) {
			return scan
		}
	}
	if strings.Contains(name, ".tfrecord") || numbered.MatchString(name) { // also .tfrecord-00000-of-01024
		return (*scanner).tfrecord
	}
	return nil
}

// Is says whether a name has the extension of an archive. Compressed archives count: Scan says what
// to do about them.
func Is(name string) bool { return method(name) != nil }

// Scan finds the samples of an archive of size bytes. Its name determines its kind. Data from r is
// checked, and memory grows with the number of samples, not with what the archive claims.
func Scan(ctx context.Context, name string, r io.ReaderAt, size int64, o Options) (*Contents, error) {
	method := method(name)
	if method == nil {
		return nil, fmt.Errorf("%w: its name has no extension of an archive", ErrBad)
	}
	return scanWith(ctx, r, size, o, method)
}

// scanWith scans an archive with a method.
func scanWith(ctx context.Context, r io.ReaderAt, size int64, o Options, method func(*scanner) error) (*Contents, error) {
	w := &window{ctx: ctx, r: r, size: size, block: max(o.Block, 4<<10), room: o.Room, memory: o.Memory}
	s := &scanner{window: w, Options: o, classes: map[string]string{}}
	s.Ignored, s.Folders, s.Problems = map[string]int{}, map[string]bool{}, map[int]string{}
	w.readAhead(o.Ahead, o.Unfit)
	defer w.close()
	err := method(s)
	if err == nil {
		err = s.check()
	}
	switch {
	case w.err != nil:
		return nil, w.err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrBad, err)
	}
	return &s.Contents, nil
}

// check checks what a scanner cannot see in a single sample.
func (s *scanner) check() error {
	var numbers, names bool
	for i := range s.Samples {
		sample := &s.Samples[i]
		numbers, names = numbers || sample.Label >= 0, names || sample.Class != ""
		if s.Problems[i] == "" && !sample.Place.Within(s.size) {
			return fmt.Errorf("%q lies outside of the file", sample.Name)
		}
	}
	if numbers && names {
		return errors.New("some labels are numbers, others are names")
	}
	return nil
}

// add appends a sample.
func (s *scanner) add(name string, at Place) {
	if s.Progress != nil {
		s.Progress(at.Offset, s.size)
	}
	s.Samples = append(s.Samples, Sample{Name: name, Label: -1, Place: at})
	if s.Seen == nil || at.Coding != Plain || at.Offset < s.at || at.Offset >= s.at+int64(len(s.buf)) {
		return
	}
	data := s.buf[at.Offset-s.at:]
	s.Seen(at, data[:min(at.Length, int64(len(data)))])
}

// ignore counts a file that is not a sample, and adds its folder.
func (s *scanner) ignore(name string) {
	s.Ignored[ExtensionKey(name)]++
	s.addFolder(path.Dir(name))
}

func (s *scanner) addFolder(name string) {
	if name, err := clean(name); err == nil && !Hidden(name) {
		s.Folders[name] = true
	}
}

// addProblem appends a sample that cannot be read.
func (s *scanner) addProblem(name, reason string) {
	s.Problems[len(s.Samples)] = reason
	s.Samples = append(s.Samples, Sample{Name: name, Label: -1})
}

// caught calls a library's function, and turns a panic into an error: libraries for formats check
// most, but not all, of damaged data.
func caught(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	return f()
}

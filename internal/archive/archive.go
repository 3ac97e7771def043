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

// ErrBad is what [Scan] and [Place.Unpack] return, wrapped, when the archive itself is at fault: it
// is damaged, or of a kind that cannot be used. Any other error comes from its reader or its
// context.
var ErrBad = fault.New(fault.File, "bad archive")

// Contents is what an archive holds.
type Contents struct {
	Kind string // "tar", "webdataset", "zip", "parquet", "mds", "tfrecord" or "beton"

	// Ordered says that the archive's own order is that of the samples. Otherwise they are files in
	// directories, whose order and labels follow from their names as in a file system.
	Ordered bool

	Classes  []string        // in the order of labels, where the format names them
	Samples  []Sample        // in the archive's order
	Ignored  map[string]int  // files that are no samples, counted by extension as [ExtensionKey] returns it
	Folders  map[string]bool // that are not hidden, which may hold no sample; not of what is Ordered
	Unended  bool            // a tar, or one in it, has no mark at its end: it may have been cut off between two members
	Numbers  []string        // columns of whole numbers, where none is taken for the labels
	Problems map[int]string  // why a sample cannot be read, by its position in Samples; its Place is empty
}

// Sample is an image in an archive.
type Sample struct {
	Name  string // a relative path, unique in the archive
	Label int64  // from 0 to the largest int32; -1 for none
	Class string // the label as a name, where the archive has no numbers; "" for none
	Place
}

// Options are the settings of [Scan].
type Options struct {
	// Image and Label name the fields that hold the image and the label: the extensions of a
	// WebDataset, keys of its JSON, columns, features. "" finds them by their usual names. The
	// field of a WebDataset need be no image. Rows without the image that is named are left out;
	// the names of others end with it, as those of members do.
	Image, Label string

	// Block is how many bytes are read at once, at least: 0 means 4 KiB, which suits a local file.
	// Over a network it should be some MiB.
	Block int

	// Memory, if not nil, is called before that many bytes are allocated to read into, and with a
	// negative number after they were given up. It may wait. Its error ends the scan, and is
	// returned as it is. What is still held when Scan returns is given up then, without a call.
	Memory func(n int64) error

	// Room is how many more bytes may be held of what is read before it is needed, in blocks, where
	// the archive is read from front to back. Less than two blocks: nothing is.
	Room int64

	// Ahead, if not nil, is what is probably going to be read, in order and within the archive; see
	// [ReadDALI]. It is read before it is needed, several spans at a time, as far as Block is
	// enough for. Whatever it is, Scan finds the same. Unfit, if not nil, is called when little of
	// it was needed.
	Ahead []Span
	Unfit func()

	// Seen, if not nil, is shown what a sample begins with, as far as that is in memory, so that it
	// need not be read again: up to Length bytes, valid during the call. It is for samples that are
	// Plain, some of which it may not be called for, and it may be called for files that turn out
	// to be no samples.
	Seen func(at Place, data []byte)

	// Progress, if not nil, is told at each sample how many of the archive's bytes were passed.
	Progress func(done, total int64)
}

// A scanner finds the samples of an archive of one kind.
type scanner struct {
	*window
	Options
	Contents
	classes map[string]string // the names that were seen, to have each once in memory
}

// methods are the ones that scan archives, by extension.
var methods = map[string]func(*scanner) error{
	".tar": (*scanner).tar, ".zip": (*scanner).zip, ".parquet": (*scanner).parquet,
	".mds": (*scanner).mds, ".mds.zstd": (*scanner).mds, ".beton": (*scanner).beton,
}

// compressed are the extensions of archives in which nothing can be found without unpacking all of
// it.
var compressed = strings.Fields(`.tar.gz .tgz .tar.bz2 .tbz2 .tar.xz .txz .tar.zst .tzst .tar.lz4
	.mds.gz .mds.br .mds.bz2 .mds.snappy .tfrecord.gz .tfrecords.gz`)

var errCompressed = errors.New("it is compressed as a whole; unpack it, or write it without compression")

// refuseCompressed looks at what the archive begins with, as not every name says that it is
// compressed.
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

// method returns the method that scans archives of a name, nil if it is not that of an archive.
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

// Is says whether a name is that of an archive, by its extension. Those of compressed archives
// count: Scan says what to do about them.
func Is(name string) bool { return method(name) != nil }

// Scan finds the samples of an archive of size bytes. Its kind follows from its name. Whatever r
// returns is checked, and memory is in proportion to the number of samples, not to what the archive
// claims.
func Scan(ctx context.Context, name string, r io.ReaderAt, size int64, o Options) (*Contents, error) {
	method := method(name)
	if method == nil {
		return nil, fmt.Errorf("%w: its name has no extension of an archive", ErrBad)
	}
	return scanWith(ctx, r, size, o, method)
}

// scanWith has a method scan an archive.
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

// check examines what no scanner can see while it looks at one sample.
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

// ignore counts a file that is no sample; its folder is there all the same.
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

// caught calls a library's function. Libraries for formats catch most, but not all, of what can be
// wrong in damaged data.
func caught(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	return f()
}

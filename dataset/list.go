package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/dataset/archive"
	"github.com/batchfs/batchfs/store"
)

// A list is a text file that names archives, one in a line: by paths, patterns or URLs. Paths are relative to it.

const (
	listExtension = ".txt"
	maxList       = 64 << 20 // bytes
)

func isList(name string) bool { return strings.EqualFold(filepath.Ext(name), listExtension) }

// StoreURL returns a URL in the store that the dataset at a path is in; "" if it is on this machine, or cannot be read.
func StoreURL(path string) string {
	if store.IsURL(path) {
		return path
	}
	if isList(path) {
		text, _ := readListFile(path)
		for _, line := range listLines(text) {
			if store.IsURL(line.name) {
				return line.name
			}
		}
	}
	return ""
}

func readListFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return readList(f, info.Size())
}

func readList(r io.ReaderAt, size int64) ([]byte, error) {
	if size > maxList {
		return nil, fmt.Errorf("%w: it is longer than %d bytes", ErrList, maxList)
	}
	text := make([]byte, size)
	_, err := io.ReadFull(io.NewSectionReader(r, 0, size), text)
	return text, err
}

type listLine struct {
	number int
	name   string
}

// listLines are the lines of a list without blanks and comments.
func listLines(text []byte) (lines []listLine) {
	number := 0
	for line := range bytes.Lines(bytes.TrimPrefix(text, []byte("\xEF\xBB\xBF"))) {
		number++
		if name := string(bytes.TrimSpace(line)); name != "" && name[0] != '#' {
			lines = append(lines, listLine{number, name})
		}
	}
	return lines
}

// takeList sets the source to what a list names that is in a folder of this machine, or, where place is not empty, of that
// store.
func (s *source) takeList(ctx context.Context, place, folder string, text []byte, o *Options) error {
	first, names := "", []string(nil)
	for _, line := range listLines(text) {
		in, name := place, folder+line.name
		switch {
		case store.IsURL(line.name):
			in, name = store.Split(line.name)
		case place == "" && filepath.IsAbs(line.name):
			name = line.name
		}
		var err error
		switch {
		case names == nil:
			first = in
		case in != first:
			err = errors.New("it is not in the same store as the first one, or not on this machine as well")
		}
		switch {
		case err != nil:
		case !archive.Is(name):
			err = errors.New("neither an archive nor a pattern of archives, such as train-*.tar; list images in a .csv file with a column path")
		case in == "":
			name = filepath.Clean(name)
		default:
			err = checkPattern(name)
		}
		if err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrList, line.number, err)
		}
		names = append(names, name)
	}
	if names == nil {
		return fmt.Errorf("%w: it names nothing", ErrList)
	}
	common := commonDirectory(names)
	for i := range names {
		names[i] = names[i][len(common):]
	}
	s.archives = names
	if first == "" {
		return s.setDirectory(common)
	}
	if s.remote == nil || first != place {
		remote, _, err := store.Open(ctx, first, o.Store)
		if err != nil {
			return err
		}
		_ = s.close()
		s.remote = remote
	}
	s.store, s.prefix = o.Store.Endpoint, common
	s.setURL()
	return nil
}

// checkPattern refuses what is no path below the store's root.
func checkPattern(pattern string) error {
	if clean, outside, err := cleanPath(pattern); err != nil || outside || clean != pattern {
		return errors.New("no name of an object")
	}
	return nil
}

// commonDirectory is the directory, with its slash, that all patterns are in.
func commonDirectory(patterns []string) (common string) {
	for i, p := range patterns {
		fixed := p[:strings.IndexAny(p+"*", special+"\\")]
		fixed = fixed[:strings.LastIndexByte(fixed, '/')+1]
		if i == 0 {
			common = fixed
		}
		for !strings.HasPrefix(fixed, common) {
			common = common[:strings.LastIndexByte(strings.TrimSuffix(common, "/"), '/')+1]
		}
	}
	return common
}

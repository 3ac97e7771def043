package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/batchfs/batchfs/internal/archive"
	"github.com/batchfs/batchfs/internal/store"
)

// A list is a text file that names one dataset per line, by path, pattern or URL. Paths are
// relative to the list.

const (
	listExtension = ".txt"
	maxList       = 64 << 20 // bytes
)

func isList(name string) bool { return strings.EqualFold(filepath.Ext(name), listExtension) }

// StoreURL returns a URL in the store of the dataset at a path; "" if the dataset is on this
// machine or cannot be read.
func StoreURL(path string) string {
	if store.IsURL(path) {
		return path
	}
	if isList(path) {
		text, _ := new(source).readList(context.Background(), path)
		for _, line := range listLines(text) {
			if store.IsURL(line.name) {
				return line.name
			}
		}
	}
	return ""
}

func (s *source) readList(ctx context.Context, name string) ([]byte, error) {
	f, close, err := s.openFile(ctx, name)
	if err != nil {
		return nil, err
	}
	defer close()
	if f.Size() > maxList {
		return nil, fmt.Errorf("%w: it is longer than %d bytes", ErrList, maxList)
	}
	text := make([]byte, f.Size())
	_, err = io.ReadFull(f, text)
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
		if name := string(bytes.TrimPrefix(bytes.TrimSpace(line), []byte("file://"))); name != "" && name[0] != '#' {
			lines = append(lines, listLine{number, name})
		}
	}
	return lines
}

// group is one dataset of a list, named by one or more adjacent lines.
type group struct {
	line  int
	place string // the beginning of its store's URL; "" for files of this machine
	names []string
	known map[string]bool // the set of names
}

// groupsOf returns the datasets that a list names. Adjacent archives whose names differ only in
// numbers form one dataset. Names are relative to a folder of a place; only a list on this machine
// may contain absolute paths.
func groupsOf(text []byte, place, folder string) (groups []group, err error) {
	for _, line := range listLines(text) {
		g := group{line.number, place, []string{folder + line.name}, map[string]bool{}}
		switch {
		case store.IsURL(line.name):
			g.place, g.names[0] = store.Split(line.name)
		case filepath.IsAbs(line.name):
			g.names[0] = line.name
		}
		name := g.names[0]
		switch {
		case isList(name):
			err = errors.New("a list of its own; write here what it names")
		case g.place == "":
			g.names[0] = filepath.Clean(name)
		case name != "":
			err = checkPattern(strings.TrimRight(name, "/"))
		}
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrList, line.number, err)
		}
		if last := len(groups) - 1; last >= 0 && groups[last].takes(g) {
			g.names, g.line, g.known = append(groups[last].names, g.names[0]), groups[last].line, groups[last].known
			groups = groups[:last]
		}
		g.known[g.names[len(g.names)-1]] = true
		groups = append(groups, g)
	}
	if groups == nil {
		return nil, fmt.Errorf("%w: it names nothing", ErrList)
	}
	return groups, nil
}

var digits = regexp.MustCompile("[0-9]+")

// takes says whether next belongs to the same dataset. A name that appears again starts another
// dataset, since one dataset cannot hold the same archive twice.
func (g *group) takes(next group) bool {
	first, name := g.names[0], next.names[0]
	return g.place == next.place && archive.Is(name) && !isPattern(first+name) && !g.known[name] &&
		digits.ReplaceAllString(first, "0") == digits.ReplaceAllString(name, "0")
}

// takeList points the source at what a list names.
func (s *source) takeList(ctx context.Context, url, name string, o *Options) error {
	text, err := s.readList(ctx, name)
	if err != nil {
		return err
	}
	s.list = name
	place, folder := "", name[:len(name)-len(path.Base(name))]
	if s.remote != nil {
		s.list = s.remote.URL(name)
		place, _ = store.Split(url)
	}
	groups, err := groupsOf(text, place, folder)
	if err != nil {
		return err
	}
	s.remote = nil
	if len(groups) == 1 {
		if len(groups[0].names) == 1 {
			s.list = "" // it is the only dataset
		}
		return groups[0].error(s.takeGroup(ctx, &groups[0], o))
	}
	amazon := func(g group) bool { return strings.HasPrefix(strings.ToLower(g.place), "s3:") }
	var leads []string
	for _, g := range groups {
		e, how := &source{labels: o.LabelColumn, line: g.line}, *o
		if !amazon(g) && slices.ContainsFunc(groups, amazon) {
			how.Store.Endpoint = "" // the endpoint is for s3
		}
		if err := g.error(e.takeGroup(ctx, &g, &how)); err != nil {
			return err
		}
		if !e.hasColumns() {
			e.labels = ""
		}
		s.entries, leads = append(s.entries, e), append(leads, e.lead)
	}
	s.store, s.dir = o.Store.Endpoint, commonDirectory(leads)
	for _, e := range s.entries {
		e.lead = e.lead[len(s.dir):]
	}
	if filepath.IsAbs(s.dir) {
		return s.setDirectory(s.dir)
	}
	return nil
}

// error names the dataset in an error.
func (g *group) error(err error) error {
	if err == nil {
		return nil
	}
	return &EntryError{g.line, g.place + g.names[0], err}
}

// takeGroup points the source at a dataset of a list.
func (s *source) takeGroup(ctx context.Context, g *group, o *Options) (err error) {
	if g.place != "" {
		if s.remote, _, err = o.OpenStore(ctx, g.place); err != nil {
			return err
		}
	}
	if len(g.names) == 1 {
		return s.find(ctx, g.place, g.names[0], o)
	}
	common := commonDirectory(g.names)
	for _, name := range g.names {
		s.archives = append(s.archives, escapePattern(name[len(common):]))
	}
	if s.remote != nil {
		s.store = o.Store.Endpoint
	}
	return s.setDirectory(common)
}

// checkPattern refuses anything but a path below the store's root.
func checkPattern(pattern string) error {
	if clean, outside, err := cleanPath(pattern); err != nil || outside || clean != pattern {
		return errors.New("no name of an object")
	}
	return nil
}

// commonDirectory is the directory, with its slash, that contains all patterns.
func commonDirectory(patterns []string) (common string) {
	for i, p := range patterns {
		fixed := p[:strings.IndexAny(p+"*", special+"\\")]
		fixed = fixed[:strings.LastIndexByte(fixed, '/')+1]
		if i == 0 {
			common = fixed
		}
		common = shared(common, fixed)
	}
	return common
}

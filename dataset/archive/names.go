package archive

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

const (
	maxName  = 4096    // bytes of a sample's name
	maxClass = 1 << 10 // bytes of a class name
)

// images are the extensions of images, the ones that are preferred in a sample of several first.
var images = []string{"jpg", "jpeg", "png", "webp", "bmp", "ppm", "pgm"}

// clean returns an entry's name without what means nothing in it. As extracting does, it makes
// absolute names relative.
func clean(name string) (string, error) {
	switch {
	case len(name) > maxName:
		return "", fmt.Errorf("a name is longer than %d bytes", maxName)
	case strings.IndexByte(name, 0) >= 0:
		return "", fmt.Errorf("%q: the name holds a NUL byte", name)
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "", fmt.Errorf("%q: the name leads out of the archive", name)
	}
	if name = strings.TrimPrefix(path.Clean("/"+name), "/"); name == "" {
		return "", errors.New("an entry has no name")
	}
	return name, nil
}

// hidden says whether a file would be skipped in a directory: some part of its name begins with a dot, or
// it is what macOS adds to archives.
func hidden(name string) bool {
	return name[0] == '.' || strings.Contains(name, "/.") || strings.HasPrefix(name, "__MACOSX/")
}

func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// ExtensionKey names the kind of an ignored file for counting: its extension in lower case, "." for a hidden
// file, "" for no extension, "other" for anything but up to 8 letters and digits.
func ExtensionKey(name string) string {
	if hidden(name) {
		return "."
	}
	_, ext, found := cutLast(base(name), '.')
	strange := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') }
	if ext = strings.ToLower(ext); found && (ext == "" || len(ext) > 8 || strings.ContainsFunc(ext, strange)) {
		return "other"
	}
	return ext
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

func isImage(name string) bool {
	_, ext, _ := cutLast(base(name), '.')
	return slices.Contains(images, strings.ToLower(ext))
}

// duplicates returns the samples that another one of the same name follows.
func (s *scanner) duplicates() map[int]bool {
	order := make([]int32, len(s.Samples))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return strings.Compare(s.Samples[a].Name, s.Samples[b].Name) })
	found := map[int]bool{}
	for k, i := range order[min(1, len(order)):] {
		if before := order[k]; s.Samples[before].Name == s.Samples[i].Name {
			found[int(before)] = true
		}
	}
	return found
}

// keep leaves out samples, by their positions.
func (s *scanner) keep(wanted func(i int) bool) {
	kept, problems := s.Samples[:0], map[int]string{}
	for i, sample := range s.Samples {
		if !wanted(i) {
			continue
		}
		if reason, bad := s.Problems[i]; bad {
			problems[len(kept)] = reason
		}
		kept = append(kept, sample)
	}
	clear(s.Samples[len(kept):])
	s.Samples, s.Problems = kept, problems
}

// files ends the scan of an archive of files: of several with one name, extracting leaves the last.
func (s *scanner) files() {
	if again := s.duplicates(); len(again) > 0 {
		s.keep(func(i int) bool { return !again[i] })
	}
}

package archive

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	maxName  = 4096    // bytes of a sample's name
	maxClass = 1 << 10 // bytes of a class name

	packed = "bfs" // the extension of packed images
)

var (
	// images are the extensions of images, in order of preference for a sample with several.
	images = []string{"jpg", "jpeg", "png", "webp", "bmp", "ppm", "pgm", packed}

	// usualImages and usualLabels are names of columns and features, the likeliest first. Names
	// with slashes are TensorFlow's.
	usualImages = []string{"image/encoded", "image", "img", "jpg", "jpeg", "png", "image_raw", "encoded", "x"}
	usualLabels = []string{"image/class/label", "label", "labels", "cls", "class", "image/class/text", "y"}
)

// clean normalizes an entry's name. Like an extracting program, it makes absolute names relative.
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

// Hidden says whether a file or a folder is skipped: some part of its path begins with a dot, or is
// the folder that macOS adds to archives.
func Hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.") || strings.Contains("/"+name+"/", "/__MACOSX/")
}

func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// numbered matches a shard of records without an extension, as TensorFlow's own programs write
// ImageNet: train-00000-of-01024.
var numbered = regexp.MustCompile(`^[^.]+-\d{5,}-of-\d{5,}$`)

// ExtensionKey is the kind of an ignored file for counting: its extension in lower case, "." for a
// hidden file, "" for no extension, "other" for anything but up to 8 letters and digits, so that it
// is always printable.
func ExtensionKey(name string) string {
	if Hidden(name) {
		return "."
	}
	ext, found := extension(name)
	strange := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') }
	switch {
	case numbered.MatchString(base(name)):
		return "tfrecord"
	case !found:
		return ""
	case strings.HasPrefix(ext, "tfrecord"): // also .tfrecord-00000-of-01024
		return "tfrecord"
	case ext == "" || len(ext) > 8 || strings.ContainsFunc(ext, strange):
		return "other"
	}
	return ext
}

// extension is a name's extension in lower case, without the dot.
func extension(name string) (ext string, found bool) {
	name = base(name)
	dot := strings.LastIndexByte(name, '.')
	return strings.ToLower(name[dot+1:]), dot >= 0
}

// IsImage says whether a name has the extension of a supported format.
func IsImage(name string) bool {
	ext, found := extension(name)
	return found && slices.Contains(images, ext)
}

// duplicates returns the samples that a later one with the same name replaces.
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

// Keep removes the samples that are not wanted, by position.
func (c *Contents) Keep(wanted func(i int) bool) {
	kept, problems := c.Samples[:0], map[int]string{}
	for i, sample := range c.Samples {
		if !wanted(i) {
			continue
		}
		if reason, bad := c.Problems[i]; bad {
			problems[len(kept)] = reason
		}
		kept = append(kept, sample)
	}
	clear(c.Samples[len(kept):])
	c.Samples, c.Problems = kept, problems
}

// files ends the scan of an archive of files. Like extracting, it keeps the last file of each name.
func (s *scanner) files() {
	if again := s.duplicates(); len(again) > 0 {
		s.Keep(func(i int) bool { return !again[i] })
	}
}

// nameRows names samples by their number, unless each has a name of its own.
func (s *scanner) nameRows(named bool) {
	if named && len(s.duplicates()) == 0 {
		return
	}
	for i := range s.Samples {
		s.Samples[i].Name = fmt.Sprintf("%09d", i)
	}
}

// rank says how well a field fits: 0 is best, -1 is not at all. If a field is requested, only that
// fits.
func rank(asked string, usual []string, name string) int {
	if asked != "" {
		usual = []string{asked}
	}
	return slices.Index(usual, name)
}

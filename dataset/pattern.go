package dataset

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Several archives are named as in a shell: *, ? and [a-z] stand for characters, {a,b} for either,
// and {000..255} for numbers.

const (
	special     = "*?[{"
	maxArchives = 1 << 20 // that a pattern can stand for
)

func isPattern(name string) bool { return strings.ContainsAny(name, special) }

// escapePattern is the pattern of one name.
func escapePattern(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if strings.IndexByte(special+"\\}", c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// splitPattern divides a path into the directory before its first special character, which ends
// with a slash unless it is empty, and the rest.
func splitPattern(name string) (dir string, patterns []string) {
	dir = name[:strings.LastIndexByte(name[:strings.IndexAny(name, special)], '/')+1]
	return dir, []string{name[len(dir):]}
}

// expand replaces the braces in a pattern: what is left has only the special characters of
// [path.Match].
func expand(pattern string) ([]string, error) {
	open, end, err := firstBraces(pattern)
	if err != nil || open < 0 {
		return []string{pattern}, err
	}
	choices, err := choicesOf(pattern[open+1 : end])
	if err != nil {
		return nil, err
	}
	var all []string
	for _, c := range choices {
		more, err := expand(pattern[:open] + c + pattern[end+1:])
		if err != nil {
			return nil, err
		}
		if all = append(all, more...); len(all) > maxArchives {
			return nil, fmt.Errorf("%q stands for more than %d names", pattern, maxArchives)
		}
	}
	return all, nil
}

// firstBraces finds the first pair of braces that is inside no other; -1 if there is none.
func firstBraces(pattern string) (open, end int, err error) {
	open, depth := -1, 0
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '{':
			if depth++; depth == 1 {
				open = i
			}
		case '}':
			if depth--; depth == 0 {
				return open, i, nil
			}
		}
		if depth < 0 {
			break
		}
	}
	if depth != 0 {
		return 0, 0, fmt.Errorf("%q has a brace without its pair", pattern)
	}
	return -1, -1, nil
}

// choicesOf are what stands between braces.
func choicesOf(inner string) (choices []string, err error) {
	from, to, isRange := strings.Cut(inner, "..")
	first, err1 := strconv.Atoi(from)
	last, err2 := strconv.Atoi(to)
	if isRange && err1 == nil && err2 == nil && first >= 0 {
		if last < first || last-first >= maxArchives {
			return nil, fmt.Errorf("{%s} must go up, by less than %d", inner, maxArchives)
		}
		for n := first; n <= last; n++ {
			choices = append(choices, fmt.Sprintf("%0*d", len(from), n))
		}
		return choices, nil
	}
	depth, start := 0, 0
	for i := range len(inner) {
		switch inner[i] {
		case '{':
			depth++
		case '}':
			depth--
		case ',':
			if depth == 0 {
				choices, start = append(choices, inner[start:i]), i+1
			}
		}
	}
	if choices == nil {
		return nil, fmt.Errorf("{%s} is neither a list, as in {a,b}, nor numbers, as in {000..255}", inner)
	}
	return append(choices, inner[start:]), nil
}

// literal returns the name that a pattern without braces stands for, if it is one.
func literal(pattern string) (name string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteByte(pattern[i])
		case strings.IndexByte("*?[", c) >= 0:
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// beginning is the longest text that all names of a pattern without braces begin with, up to a
// slash.
func beginning(pattern string) string {
	dir := path.Dir(pattern[:max(0, strings.IndexAny(pattern+"*", "*?[\\"))] + "x")
	if dir == "." {
		return ""
	}
	return dir + "/"
}

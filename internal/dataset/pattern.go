package dataset

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Several archives are named as in a shell: *, ? and [a-z] match characters, {a,b} stands for
// either text, and {000..255} for numbers.

const (
	special     = "*?[{"
	maxArchives = 1 << 20 // that one pattern can stand for
)

func isPattern(name string) bool { return strings.ContainsAny(name, special) }

// escapePattern returns the pattern that matches exactly one name.
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

// splitPattern splits a path before the path element with the first special character. dir ends
// with a slash unless it is empty.
func splitPattern(name string) (dir string, patterns []string) {
	dir = name[:strings.LastIndexByte(name[:strings.IndexAny(name, special)], '/')+1]
	return dir, []string{name[len(dir):]}
}

// expand replaces the braces in a pattern. The results have only the special characters of
// [path.Match].
func expand(pattern string) (all []string, err error) {
	var marks []int // the outer braces of the first pair, and the commas directly in it
	depth := 0
	for i := 0; i < len(pattern) && depth >= 0; i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '{':
			if depth++; depth == 1 {
				marks = []int{i}
			}
		case c == ',' && depth == 1:
			marks = append(marks, i)
		case c == '}':
			if depth--; depth == 0 {
				return expandAt(pattern, append(marks, i))
			}
		}
	}
	if depth != 0 {
		return nil, fmt.Errorf("%q has a brace without its pair", pattern)
	}
	return []string{pattern}, nil
}

// expandAt is expand for a pattern with braces.
func expandAt(pattern string, marks []int) (all []string, err error) {
	open, end := marks[0], marks[len(marks)-1]
	var choices []string
	for k, mark := range marks[1:] {
		choices = append(choices, pattern[marks[k]+1:mark])
	}
	if len(choices) == 1 {
		if choices, err = numbers(choices[0]); err != nil {
			return nil, err
		}
	}
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

// numbers returns the numbers of a range, each with at least as many digits as the first.
func numbers(inner string) (all []string, err error) {
	from, to, isRange := strings.Cut(inner, "..")
	first, err1 := strconv.Atoi(from)
	last, err2 := strconv.Atoi(to)
	switch {
	case !isRange || err1 != nil || err2 != nil || first < 0:
		return nil, fmt.Errorf("{%s} is neither a list, as in {a,b}, nor numbers, as in {000..255}", inner)
	case last < first || last-first >= maxArchives:
		return nil, fmt.Errorf("{%s} must go up, by less than %d", inner, maxArchives)
	}
	for n := first; n <= last; n++ {
		all = append(all, fmt.Sprintf("%0*d", len(from), n))
	}
	return all, nil
}

// literal returns the name that a pattern without braces stands for, if it has no special
// characters.
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

// beginning returns the directory, up to a slash, that all names matching a pattern without braces
// begin with.
func beginning(pattern string) string {
	dir := path.Dir(pattern[:max(0, strings.IndexAny(pattern+"*", "*?[\\"))] + "x")
	if dir == "." {
		return ""
	}
	return dir + "/"
}

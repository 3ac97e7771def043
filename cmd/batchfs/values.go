package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// flagValues reads the flags of one command line and keeps the first refusal, so that a
// caller can fill a whole option struct before checking it.
type flagValues struct {
	flags *cli.Context
	err   error
}

func (v *flagValues) refuse(err error) {
	if v.err == nil {
		v.err = err
	}
}

func (v *flagValues) text(name string) string { return v.flags.String(name) }
func (v *flagValues) on(name string) bool     { return v.flags.Bool(name) }

// given reports that the user set a flag, for flags whose default is determined at run
// time.
func (v *flagValues) given(name string) bool { return v.flags.IsSet(name) }

// number reads a whole number from least to most.
func (v *flagValues) number(name string, least, most int64) int64 {
	n, err := strconv.ParseInt(v.text(name), 10, 64)
	if err == nil && n >= least && n <= most {
		return n
	}
	rule := fmt.Sprintf("a whole number from %d to %d", least, most)
	if most >= math.MaxInt32 && n < most { // a bound too large to mention unless exceeded
		rule = fmt.Sprintf("a whole number, at least %d", least)
	}
	v.refuse(badValue(name, rule, v.text(name)))
	return least
}

// numberOr reads a number whose default is determined at run time.
func (v *flagValues) numberOr(name string, least, most, fallback int64) int64 {
	if !v.given(name) {
		return fallback
	}
	return v.number(name, least, most)
}

func (v *flagValues) bytesOr(name string, fallback int64) int64 {
	if !v.given(name) {
		return fallback
	}
	n, err := parseBytes(v.text(name))
	if err != nil || n < 1 {
		v.refuse(badValue(name, "a size in bytes above 0, such as 512MiB or 8GiB", v.text(name)))
	}
	return n
}

func (v *flagValues) duration(name string, least time.Duration) time.Duration {
	d, err := time.ParseDuration(v.text(name))
	if err != nil || d < least {
		v.refuse(badValue(name, fmt.Sprintf("a time of at least %s, such as 500ms or 2s", least), v.text(name)))
	}
	return d
}

func (v *flagValues) mode(name string) uint32 {
	n, err := strconv.ParseUint(v.text(name), 8, 32)
	if err != nil || n > uint64(fs.ModePerm) {
		v.refuse(badValue(name, "an octal number up to 0777", v.text(name)))
	}
	return uint32(n)
}

// choice reads one of a few words, given by the values' String methods.
func choice[T fmt.Stringer](v *flagValues, name string, values ...T) T {
	words := make([]string, len(values))
	for i, value := range values {
		words[i] = value.String()
		if words[i] == v.text(name) {
			return value
		}
	}
	v.refuse(badValue(name, oneOf(words), v.text(name)))
	return values[0]
}

// word is a choice that remains text.
type word string

func (w word) String() string { return string(w) }

// oneOf writes alternatives: "rgb or gray", "fill, partial or drop".
func oneOf(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func (v *flagValues) seed() uint64 {
	seed, err := strconv.ParseUint(v.text("seed"), 10, 64)
	if err != nil {
		v.refuse(badValue("seed", "a whole number from 0 to 2^64-1", v.text("seed")))
	}
	return seed
}

// maxCount bounds flags that size tables and goroutines, so that a typo is refused here
// instead of exhausting the machine.
const maxCount = 1 << 20

// arguments checks the number of arguments and names the one that is missing.
func (v *flagValues) arguments(names ...string) []string {
	args := v.flags.Args().Slice()
	switch {
	case len(args) < len(names):
		v.refuse(usage("%s is missing", names[len(args)]))
	case len(args) > len(names):
		takes := strings.Join(names, " and ")
		v.refuse(&usageError{surplus: true, message: fmt.Sprintf("%q is one argument too many: %s takes %s",
			args[len(names)], v.flags.Command.Name, cmp.Or(takes, "no arguments"))})
	}
	for i, a := range args[:min(len(args), len(names))] {
		if a == "" {
			v.refuse(usage("%s must not be empty", names[i]))
		}
	}
	return append(args, make([]string, len(names))...)[:len(names)]
}

// option spells a value flag as on a command line.
func option(name, value string) string { return "--" + name + "=" + value }

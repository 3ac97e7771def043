package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagSet defines a command's flags. Each flag parses its value straight into a field of an
// option struct, so that name, default, rule and field stand in one place.
type flagSet struct {
	*pflag.FlagSet
	group string // heading of the flags that are added, in the help; "" for the command's own
}

func flagsOf(cmd *cobra.Command) *flagSet {
	cmd.Flags().SortFlags = false
	return &flagSet{FlagSet: cmd.Flags()}
}

// A parser stores a value. It returns the rule if the value breaks it, and "" otherwise.
type parser func(text string) (rule string)

// setting is a flag that takes a value.
type setting struct {
	name, text string
	parse      parser
}

func (s *setting) String() string { return s.text }
func (s *setting) Type() string   { return "value" }

func (s *setting) Set(text string) error {
	if rule := s.parse(text); rule != "" {
		return badValue(s.name, rule, text)
	}
	s.text = text
	return nil
}

// add defines a flag that takes a value, and stores its default.
func (f *flagSet) add(name, fallback, usage string, parse parser) {
	s := &setting{name: name, parse: parse}
	if err := s.Set(fallback); err != nil {
		panic(err) // a mistake in this program
	}
	if fallback == "0" {
		usage += " (default 0)" // pflag does not mention zeros
	}
	f.Var(s, name, usage)
	f.mark(name)
}

// derived defines a flag whose default is determined later; the help describes it.
func (f *flagSet) derived(name, fallback, usage string, parse parser) {
	f.Var(&setting{name: name, parse: parse}, name, usage+" (default: "+fallback+")")
	f.mark(name)
}

// toggle defines a flag that is on or off.
func (f *flagSet) toggle(to *bool, name string, fallback bool, usage string) {
	f.BoolVar(to, name, fallback, usage)
	f.mark(name)
}

const groupAnnotation = "group"

func (f *flagSet) mark(name string) {
	_ = f.SetAnnotation(name, groupAnnotation, []string{f.group}) // fails for unknown flags only
}

// text returns a flag's value as given.
func (f *flagSet) text(name string) string { return f.Lookup(name).Value.String() }

// spelled returns the flags that were given, in one normal form.
func spelled(flags *pflag.FlagSet) (words []string) {
	flags.Visit(func(f *pflag.Flag) {
		if f.Name != optionFlag {
			words = append(words, "--"+f.Name+"="+f.Value.String())
		}
	})
	return words
}

// flagError explains a command line that the parser rejects.
func flagError(flags *pflag.FlagSet, err error) error {
	var explained *usageError
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	var syntax *pflag.InvalidSyntaxError
	switch {
	case errors.As(err, &explained):
		return explained
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		wrong := &usageError{message: fmt.Sprintf("unknown flag %s", dashed(name))}
		if near := nearest(name, flagNames(flags)); near != "" {
			wrong.hint = "did you mean: --" + near
		}
		return wrong
	case errors.As(err, &missing):
		return usage("%s needs a value", dashed(missing.GetSpecifiedName()))
	case errors.As(err, &invalid): // the others explain themselves
		return badValue(invalid.GetFlag().Name, "true or false", invalid.GetValue())
	case errors.As(err, &syntax):
		return usage("unknown flag %s", syntax.GetSpecifiedFlag())
	}
	return err
}

func flagNames(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && len(f.Name) > 1 {
			names = append(names, f.Name)
		}
	})
	return names
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// arguments checks the number of arguments and names the missing one.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usage("%s is missing", names[len(args)])
		}
		if i := slices.Index(args, ""); i >= 0 && i < len(names) {
			return usage("%s must not be empty", names[i])
		}
		if len(args) == len(names) {
			return nil
		}
		return surplus(cmd, args, fmt.Sprintf("too many arguments at %q: %s takes %s",
			args[len(names)], cmd.Name(), cmp.Or(strings.Join(names, " and "), "no arguments")))
	}
}

// surplus refuses an argument. It may have been meant as a switch's value.
func surplus(cmd *cobra.Command, args []string, message string) error {
	wrong := &usageError{message: message}
	if i := slices.IndexFunc(args, func(a string) bool { return a == "true" || a == "false" }); i >= 0 {
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				wrong.hint = fmt.Sprintf("did you mean: --%s=%s", f.Name, args[i])
			}
		})
	}
	return wrong
}

// A named is one of a few values of a flag.
type named[T any] struct {
	name  string
	value T
}

// pick accepts one of a few words.
func pick[T any](to *T, values ...named[T]) parser {
	return func(text string) string {
		words := make([]string, len(values))
		for i, v := range values {
			if words[i] = v.name; v.name == text {
				*to = v.value
				return ""
			}
		}
		return alternatives(words)
	}
}

// choice accepts the name of one of a few values.
func choice[T fmt.Stringer](to *T, values ...T) parser {
	list := make([]named[T], len(values))
	for i, v := range values {
		list[i] = named[T]{v.String(), v}
	}
	return pick(to, list...)
}

// oneOf accepts one of a few words as they are.
func oneOf(to *string, words ...string) parser {
	list := make([]named[string], len(words))
	for i, w := range words {
		list[i] = named[string]{w, w}
	}
	return pick(to, list...)
}

// anything accepts every text.
func anything(to *string) parser {
	return func(text string) string {
		*to = text
		return ""
	}
}

// number accepts a whole number from least to most.
func number[T ~int | ~int64 | ~uint8 | ~uint32](to *T, least, most int64) parser {
	return func(text string) string {
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err == nil && n >= least && n <= most:
			*to = T(n)
			return ""
		case most >= math.MaxInt32 && n < most: // mention a very large bound only if it is exceeded
			return fmt.Sprintf("a whole number, at least %d", least)
		}
		return fmt.Sprintf("a whole number from %d to %d", least, most)
	}
}

// seed accepts any unsigned number of 64 bits.
func seed(to *uint64) parser {
	return func(text string) string {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return "a whole number from 0 to 2^64-1"
		}
		*to = n
		return ""
	}
}

// byteSize accepts a size above 0.
func byteSize(to *int64) parser {
	return func(text string) string {
		n, err := parseBytes(text)
		if err != nil || n < 1 {
			return "a size in bytes above 0, such as 512MiB or 8GiB"
		}
		*to = n
		return ""
	}
}

// duration accepts a time of at least least.
func duration(to *time.Duration, least time.Duration) parser {
	return func(text string) string {
		d, err := time.ParseDuration(text)
		if err != nil || d < least {
			return fmt.Sprintf("a time of at least %s, such as 500ms or 2s", least)
		}
		*to = d
		return ""
	}
}

// mode accepts file permissions.
func mode(to *uint32) parser {
	return func(text string) string {
		n, err := strconv.ParseUint(text, 8, 32)
		if err != nil || n > uint64(fs.ModePerm) {
			return "an octal number up to 0777"
		}
		*to = uint32(n)
		return ""
	}
}

// fraction accepts a number from 0 to 1.
func fraction(to *float64) parser {
	return func(text string) string {
		p, ok := parseRatio(text)
		if !ok || p < 0 || p > 1 {
			return "a number from 0 to 1"
		}
		*to = p
		return ""
	}
}

// interval accepts two positive numbers, the first not above the second.
func interval(to *[2]float64, most float64) parser {
	return func(text string) string {
		low, high, two := strings.Cut(text, ",")
		a, okA := parseRatio(low)
		b, okB := parseRatio(high)
		switch {
		case two && okA && okB && a > 0 && a <= b && b <= most:
			*to = [2]float64{a, b}
			return ""
		case most == 1:
			return "two numbers above 0 and at most 1, the smaller first, as in 0.08,1"
		}
		return "two numbers above 0, the smaller first, as in 3/4,4/3"
	}
}

// perChannel accepts numbers separated by commas.
func perChannel(to *[]float64) parser {
	return func(text string) string {
		*to = nil
		for part := range strings.SplitSeq(text, ",") {
			n, ok := parseRatio(part)
			if !ok {
				return "one number per channel, separated by commas"
			}
			*to = append(*to, n)
		}
		return ""
	}
}

// extent accepts a height and a width in pixels.
func extent(height, width *int, example string) parser {
	return func(text string) string {
		h, w, ok := parseExtent(text)
		if !ok {
			return fmt.Sprintf("a height and a width, each from 1 to %d, as in %s", maxExtent, example)
		}
		*height, *width = h, w
		return ""
	}
}

// alternatives writes "rgb or gray", "fill, partial or drop".
func alternatives(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

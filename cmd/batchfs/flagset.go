package main

import (
	"flag"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
)

// flagSet defines a command's flags. Each flag parses its value straight into a field of an option
// struct, so that name, default, rule and field are in one place.
type flagSet struct {
	flags   []cli.Flag
	given   []string // names of the given flags, in the order of their first use
	refused error    // why parsing ended; package flag passes on only its text
	checks  []func() error
	args    []string // arguments of the command line; known when the checks run
	group   string   // heading in the help for the flags that are added; "" for the command's own
}

// internal is the heading of flags that users never need.
const internal = "internal"

// A parser stores a value. It returns the rule if the value breaks it, and "" otherwise.
type parser func(text string) (rule string)

// setting is the value of a flag.
type setting struct {
	set        *flagSet
	name, text string
	fallback   string // description of a derived default
	usage      string
	isSwitch   bool // it needs no value
	common     bool // --help shows it, though it is shared
	parse      parser
	value      func() any // its value in config.json, if the text is not good enough: it was derived, or is not text; nil: the text
}

// everyday has --help show a shared flag; --help-all shows all of them.
func (s *setting) everyday() *setting {
	s.common = true
	return s
}

// field returns the value of a setting that is in a field.
func field[T any](of *T) func() any { return func() any { return *of } }

// ifSet is the same unless the field is zero.
func ifSet[T any](of *T) func() any {
	return func() any {
		if reflect.ValueOf(of).Elem().IsZero() {
			return nil
		}
		return *of
	}
}

func (s *setting) String() string   { return s.text }
func (s *setting) IsBoolFlag() bool { return s.isSwitch }

// Set is for values that users give.
func (s *setting) Set(text string) error {
	if rule := s.parse(text); rule != "" {
		s.set.refused = s.instead(badValue(s.name, rule, text), text)
		return s.set.refused
	}
	s.text = text
	if !s.set.Changed(s.name) {
		s.set.given = append(s.set.given, s.name)
	}
	return nil
}

// store is for defaults.
func (s *setting) store(text string) {
	if rule := s.parse(text); rule != "" {
		panic(badValue(s.name, rule, text)) // a mistake in this program
	}
	s.text = text
}

// switchFlag is a flag that needs no value.
type switchFlag struct {
	cli.BoolFlag // its name and its help
	value        *setting
}

// Apply implements cli.Flag.
func (f *switchFlag) Apply(set *flag.FlagSet) error {
	set.Var(f.value, f.Name, f.Usage)
	return nil
}

// add defines a flag that takes a value, and stores its default. In usage, backquotes enclose
// the word that stands for the value.
func (f *flagSet) add(name, fallback, usage string, parse parser) *setting {
	s := f.derived(name, "", usage, parse)
	s.store(fallback)
	return s
}

// derived defines a flag whose default is determined later; the help describes it.
func (f *flagSet) derived(name, fallback, usage string, parse parser) *setting {
	_, word, _ := strings.Cut(usage, "`")
	word, _, _ = strings.Cut(word, "`")
	s := &setting{set: f, name: name, fallback: fallback, usage: usage, parse: parse}
	f.flags = append(f.flags, &cli.GenericFlag{
		Name: name, Usage: usage, DefaultText: fallback, Category: f.group, Hidden: f.group == internal,
		Value: s, TakesFile: slices.Contains([]string{"FILE", "DIR", "PLACE"}, word),
	})
	return s
}

// check adds a check or derivation that needs the values of all flags. So a rule about several
// flags is written beside them.
func (f *flagSet) check(what func() error) { f.checks = append(f.checks, what) }

// finish runs the checks in the order in which they were added.
func (f *flagSet) finish(args []string) error {
	f.args = args
	return runAll(f.checks)
}

func runAll(checks []func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// toggle defines a flag that is on or off.
func (f *flagSet) toggle(to *bool, name string, fallback bool, usage string) *setting {
	if fallback {
		usage += " (default: true)"
	}
	s := f.switchable(name, usage, value(to, "true or false", func(text string) (bool, bool) {
		on, err := strconv.ParseBool(text)
		return on, err == nil
	}))
	s.store(strconv.FormatBool(fallback))
	return s
}

// switchable defines a flag that is off, on, or something else that parse accepts.
func (f *flagSet) switchable(name, usage string, parse parser) *setting {
	s := &setting{set: f, name: name, text: "false", usage: usage, isSwitch: true, parse: parse}
	words := cli.BoolFlag{Name: name, Usage: usage, Category: f.group, Hidden: f.group == internal, DisableDefaultText: true}
	f.flags = append(f.flags, &switchFlag{words, s})
	return s
}

// Changed says whether a flag was given.
func (f *flagSet) Changed(name string) bool { return slices.Contains(f.given, name) }

// text returns a flag's value as given.
func (f *flagSet) text(name string) string { return f.setting(name).text }

// setting returns the value of a flag by name; nil: there is no such flag, or it is not one of
// ours.
func (f *flagSet) setting(name string) *setting { return settingOf(find(f.flags, name)) }

// spelled returns the flags that were given, in one normal form.
func (f *flagSet) spelled() (words []string) {
	for _, name := range f.given {
		words = append(words, "--"+name+"="+f.text(name))
	}
	return words
}

// settingOf returns the value of a flag; nil: the flag is -o, or one of package cli.
func settingOf(f cli.Flag) (s *setting) {
	switch f := f.(type) {
	case *cli.GenericFlag:
		s, _ = f.Value.(*setting)
	case *switchFlag:
		s = f.value
	}
	return s
}

// group returns the heading of a flag.
func group(f cli.Flag) string { return f.(cli.CategorizableFlag).GetCategory() }

func flagNames(flags []cli.Flag) (names []string) {
	for _, f := range flags {
		if group(f) != internal {
			names = append(names, f.Names()[0])
		}
	}
	return names
}

// find returns the flag of a name; nil: there is none.
func find(flags []cli.Flag, name string) cli.DocGenerationFlag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f.(cli.DocGenerationFlag)
		}
	}
	return nil
}

// arrange separates the flags of a command line, as --name or --name=value, from its arguments.
// Package flag wants the flags first, and it does not know -o.
func arrange(flags []cli.Flag, words []string) (options, args []string, err error) {
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if word == "--" {
			return options, append(args, words...), nil
		}
		if word == "-" || !strings.HasPrefix(word, "-") {
			args = append(args, word)
			continue
		}
		name, value, given := strings.Cut(strings.TrimPrefix(word[1:], "-"), "=")
		f := find(flags, name)
		switch {
		case f == nil:
			return options, args, unknownFlag(flags, word, name)
		case f.TakesValue() && !given && len(words) == 0:
			return options, args, usage("%s needs a value", word)
		case !given && (f.TakesValue() || name == "shuffle" && len(words) > 0 && strings.HasPrefix(words[0], "window=")):
			value, given, words = words[0], true, words[1:]
		}
		if option := "--" + f.Names()[0]; option == "--"+optionFlag {
			some, err := fstabFlags(flags, value)
			if err != nil {
				return options, args, err
			}
			options = append(options, some...)
		} else if given {
			options = append(options, option+"="+value)
		} else {
			options = append(options, option)
		}
	}
	return options, args, nil
}

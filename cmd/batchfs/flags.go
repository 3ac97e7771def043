package main

import (
	"cmp"
	"errors"
	"slices"
	"strings"

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
	word       string // stands for the value in the help
	parse      parser
}

func (s *setting) String() string { return s.text }
func (s *setting) Type() string   { return s.word }

func (s *setting) Set(text string) error {
	if rule := s.parse(text); rule != "" {
		return badValue(s.name, rule, text)
	}
	s.text = text
	return nil
}

// add defines a flag that takes a value, and stores its default. In usage, backquotes enclose
// the word that stands for the value.
func (f *flagSet) add(name, fallback, usage string, parse parser) {
	if fallback == "0" {
		usage += " (default 0)" // pflag does not mention zeros
	}
	if err := f.define(name, fallback, usage, parse).Set(fallback); err != nil {
		panic(err) // a mistake in this program
	}
}

// derived defines a flag whose default is determined later; the help describes it.
func (f *flagSet) derived(name, fallback, usage string, parse parser) {
	f.define(name, "", usage+" (default: "+fallback+")", parse)
}

func (f *flagSet) define(name, fallback, usage string, parse parser) pflag.Value {
	// pflag understands backquotes too, but shells would show them in completions.
	parts := strings.SplitN(usage, "`", 3)
	s := &setting{name: name, text: fallback, word: parts[1], parse: parse}
	f.Var(s, name, strings.Join(parts, ""))
	f.mark(name)
	return s
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
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	var syntax *pflag.InvalidSyntaxError
	switch {
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		return didYouMean(usage("unknown flag %s", dashed(name)), "--", nearest(name, flagNames(flags)))
	case errors.As(err, &missing):
		return usage("%s needs a value", dashed(missing.GetSpecifiedName()))
	case errors.As(err, &invalid):
		if cause := invalid.Unwrap(); exitStatus(cause) == statusUsage {
			return cause // it explains itself
		}
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
		return surplus(cmd, args, usage("too many arguments at %q: %s takes %s",
			args[len(names)], cmd.Name(), cmp.Or(strings.Join(names, " and "), "no arguments")))
	}
}

// surplus adds a hint to the error about an argument that may have been meant as a switch's
// value.
func surplus(cmd *cobra.Command, args []string, err error) error {
	meant := ""
	if i := slices.IndexFunc(args, func(a string) bool { return a == "true" || a == "false" }); i >= 0 {
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				meant = f.Name + "=" + args[i]
			}
		})
	}
	return didYouMean(err, "--", meant)
}

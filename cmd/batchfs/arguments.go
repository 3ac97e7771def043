package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
)

// commandLine is a command with its flags separated from its arguments.
//
// The underlying flag parser stops at the first argument: in `mount photos/ mnt/ --shuffle`
// it would treat the flag as an argument. So every command line is put into one order
// before parsing. Unknown flags and missing values are refused here, in our own words.
type commandLine struct {
	command   string
	flags     []string
	arguments []string
	// inline is --switch=true if the line has --switch true, where the second word is an
	// argument.
	inline string
}

// words returns the command line in the form the parser reads: flags, then a "--" that
// protects arguments that begin with a dash.
func (l commandLine) words() []string {
	line := append([]string{l.command}, l.flags...)
	line = append(line, "--")
	return append(line, l.arguments...)
}

// parseCommandLine finds the command and sorts the rest.
func parseCommandLine(commands []*cli.Command, args []string) (commandLine, error) {
	command, err := commandNamed(commands, "", args[0])
	if err != nil {
		return commandLine{}, err
	}
	line, err := sortArguments(vocabularyOf(command.Flags), args[1:])
	line.command = command.Name
	return line, withHelp(err, command.Name)
}

// commandNamed finds a command. before precedes its name in the hint.
func commandNamed(commands []*cli.Command, before, name string) (*cli.Command, error) {
	names := make([]string, 0, len(commands))
	for _, c := range commands {
		if c.Name == name {
			return c, nil
		}
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	advice := "batchfs --help"
	if near := nearest(name, names); near != "" {
		advice = fmt.Sprintf("did you mean: batchfs %s%s", before, near)
	}
	return nil, &usageError{message: fmt.Sprintf("there is no command %q", name), hint: advice}
}

// checkGlobal checks a command line that does not begin with a command. The parser itself
// handles --help, --version and help COMMAND.
func checkGlobal(commands []*cli.Command, args []string) error {
	word := args[0]
	if word == "help" {
		if len(args) == 1 || args[1] == "help" || strings.HasPrefix(args[1], "-") {
			return nil
		}
		_, err := commandNamed(commands, "help ", args[1])
		return err
	}
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	switch name {
	case "help", "h", "version", "v":
		return nil
	case "":
		return &usageError{message: fmt.Sprintf("there is no command %q", word), hint: "batchfs --help"}
	}
	advice := "batchfs --help"
	for i, word := range args {
		if _, err := commandNamed(commands, "", word); err == nil {
			words := slices.Concat([]string{word}, args[:i], args[i+1:])
			advice = "did you mean: batchfs " + shellWords(words)
			break
		}
	}
	return &usageError{message: dashed(name) + " stands before the command: flags belong behind it", hint: advice}
}

// withHelp points a usage error that has no hint at the command's help.
func withHelp(err error, command string) error {
	if wrong, ok := err.(*usageError); ok && wrong.hint == "" {
		return &usageError{message: wrong.message, hint: "batchfs " + command + " --help"}
	}
	return err
}

// withInline explains a surplus argument: a word after a switch is not its value.
func (l commandLine) withInline(err error) error {
	if wrong, ok := err.(*usageError); ok && wrong.surplus && l.inline != "" {
		return &usageError{message: wrong.message, hint: "did you mean: " + l.inline}
	}
	return err
}

// flagKind says what may follow a flag's name.
type flagKind uint8

const (
	boolFlag flagKind = iota
	valueFlag
	optionFlag // -o: flags in fstab syntax
)

// vocabulary holds the flags of one command, by name.
type vocabulary map[string]flagKind

func vocabularyOf(flags []cli.Flag) vocabulary {
	words := vocabulary{"help": boolFlag, "h": boolFlag}
	for _, f := range flags {
		kind := valueFlag
		if _, ok := f.(*cli.BoolFlag); ok {
			kind = boolFlag
		}
		for _, name := range f.Names() {
			words[name] = kind
			if name == optionFlagName {
				words[name] = optionFlag
			}
		}
	}
	return words
}

// sortArguments separates flags from arguments. Everything after "--" is an argument. A
// flag that takes a value takes the next word, whatever it looks like. Flags are returned
// as --name or --name=value, with -o expanded in place.
func sortArguments(words vocabulary, args []string) (line commandLine, err error) {
	for i := 0; i < len(args); i++ {
		word := args[i]
		if word == "--" {
			line.arguments = append(line.arguments, args[i+1:]...)
			return line, nil
		}
		if len(word) < 2 || word[0] != '-' {
			line.arguments = append(line.arguments, word)
			continue
		}
		name, value, inline := strings.Cut(strings.TrimPrefix(word[1:], "-"), "=")
		kind, known := words[name]
		switch {
		case known && kind != boolFlag && !inline:
			if i++; i == len(args) {
				return line, usage("%s needs a value", dashed(name))
			}
			value, inline = args[i], true
		case known && !inline && i+1 < len(args) && (args[i+1] == "true" || args[i+1] == "false"):
			line.inline = dashed(name) + "=" + args[i+1]
		}
		more, err := words.spell(name, value, inline)
		if err != nil {
			return line, err
		}
		line.flags = append(line.flags, more...)
	}
	return line, nil
}

// spell writes one flag in the form the parser reads.
func (words vocabulary) spell(name, value string, hasValue bool) ([]string, error) {
	kind, known := words[name]
	switch {
	case !known:
		return nil, words.unknown(name)
	case kind == optionFlag:
		return expandOptions(words, value, false)
	case !hasValue:
		return []string{dashed(name)}, nil
	case kind == boolFlag:
		if _, err := strconv.ParseBool(value); err != nil {
			return nil, badValue(name, "true or false", value)
		}
	}
	return []string{dashed(name) + "=" + value}, nil
}

func (words vocabulary) unknown(name string) error {
	wrong := &usageError{message: fmt.Sprintf("there is no flag %s here", dashed(name))}
	if near := words.nearest(name); near != "" {
		wrong.hint = "did you mean: --" + near
	}
	return wrong
}

// nearest returns the long name closest to a mistyped one.
func (words vocabulary) nearest(name string) string {
	names := make([]string, 0, len(words))
	for n := range words {
		if len(n) > 1 {
			names = append(names, n)
		}
	}
	return nearest(name, names)
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A runner runs a command whose flags were parsed.
type runner func(ctx context.Context, args []string) error

// helpTexts say what each command is for: a line, more about it, and examples.
//
//go:embed help
var helpTexts embed.FS

// describe gives a command its help text.
func describe(cmd *cobra.Command) *cobra.Command {
	text, err := helpTexts.ReadFile("help/" + cmd.Name() + ".txt")
	if err != nil {
		panic(err) // a mistake in this program
	}
	about, examples, _ := strings.Cut(string(text), "\nExamples:\n")
	short, long, _ := strings.Cut(about, "\n")
	cmd.Short, cmd.Long, cmd.Example = short, strings.TrimSpace(long), strings.TrimRight(examples, "\n")
	return cmd
}

// command makes a command of its name and arguments, as in "convert DATASET OUT". define adds
// its flags.
func command(use string, define func(f *flagSet) runner) *cobra.Command {
	name, args, _ := strings.Cut(use, " ")
	cmd := describe(&cobra.Command{Use: strings.TrimSpace(name + " [flags] " + args), Args: arguments(strings.Fields(args)...)})
	f := flagsOf(cmd)
	run := define(f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args) }
	f.VisitAll(func(f *pflag.Flag) {
		if s, ok := f.Value.(*setting); ok {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, s.complete) // fails for a flag that has one
		}
	})
	helpFlags(f.FlagSet)
	return cmd
}

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

// otherNames are what other programs call the values of some flags.
var otherNames = map[string]map[string]string{"resize": {
	"center-crop": "not-smaller", "centre-crop": "not-smaller", "crop": "not-smaller", "cover": "not-smaller",
	"fit": "not-larger", "contain": "not-larger", "letterbox": "not-larger", "pad": "not-larger",
	"exact": "stretch", "squash": "stretch", "random-crop": "random-resized-crop",
}}

func (s *setting) String() string { return s.text }
func (s *setting) Type() string   { return s.word }

func (s *setting) Set(text string) error {
	if rule := s.parse(text); rule != "" {
		return didYouMean(badValue(s.name, rule, text), "--"+s.name+" ", otherNames[s.name][text])
	}
	s.text = text
	return nil
}

// complete offers those words of a flag's help that the flag accepts, or else files if it accepts
// everything.
func (s *setting) complete(cmd *cobra.Command, _ []string, _ string) (words []string, _ cobra.ShellCompDirective) {
	if s.parse("\x00") == "" {
		return nil, cobra.ShellCompDirectiveDefault
	}
	for word := range strings.FieldsFuncSeq(cmd.Flag(s.name).Usage, func(r rune) bool { return strings.ContainsRune(" ,:;|()", r) }) {
		if s.parse(word) == "" && !unicode.IsDigit(rune(word[0])) && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
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

// switchable defines a flag that is off, on, or something else that parse accepts.
func (f *flagSet) switchable(name, usage string, parse parser) {
	f.Var(&setting{name: name, text: "false", word: "bool", parse: parse}, name, usage)
	f.Lookup(name).NoOptDefVal = "true"
	f.mark(name)
}

const groupAnnotation = "group"

func (f *flagSet) mark(name string) {
	_ = f.SetAnnotation(name, groupAnnotation, []string{f.group}) // fails for unknown flags only
}

func groupOf(f *pflag.Flag) string { return strings.Join(f.Annotations[groupAnnotation], "") }

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

func flagNames(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && len(f.Name) > 1 {
			names = append(names, f.Name)
		}
	})
	return names
}

// flagError explains a command line that the parser rejects.
func flagError(flags *pflag.FlagSet, err error) error {
	dashed := func(name string) string {
		if len(name) == 1 {
			return "-" + name
		}
		return "--" + name
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := unknown.GetSpecifiedName()
		return didYouMean(usage("unknown flag %s", dashed(name)), "--", nearest(name, flagNames(flags)))
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usage("%s needs a value", dashed(missing.GetSpecifiedName()))
	}
	if syntax, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return usage("unknown flag %s", syntax.GetSpecifiedFlag())
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if cause := invalid.Unwrap(); exitStatus(cause) == statusUsage {
			return cause // it explains itself
		}
		return badValue(invalid.GetFlag().Name, "true or false", invalid.GetValue())
	}
	return err
}

// arguments checks the number of arguments and names the missing one.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			missing := names[len(args)]
			err := hint(usage("%s is missing", missing), "%s %s", cmd.CommandPath(), strings.Join(names, " "))
			if missing == "DATASET" {
				return hint(err, "%s, where DATASET is %s", hintOf(err), aDataset)
			}
			return err
		}
		if i := slices.Index(args, ""); i >= 0 && i < len(names) {
			return usage("%s must not be empty", names[i])
		}
		if len(args) == len(names) {
			return nil
		}
		err := usage("too many arguments at %q: %s takes %s", args[len(names)], cmd.Name(), cmp.Or(strings.Join(names, " and "), "no arguments"))
		if len(names) > 0 && names[0] == "DATASET" {
			err = hint(err, "several datasets are one DATASET: a .txt file with one in each line, or a pattern in quotes, such as 'train-*.tar'")
		}
		return surplus(cmd, args, err)
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

const (
	helpAllFlag = "help-all"
	helpWidth   = 110 // columns
)

// helpFlags defines --help, and --help-all, which is the same for a command without rare flags.
func helpFlags(f *pflag.FlagSet) {
	f.BoolP("help", "h", false, "show this help")
	f.BoolFunc(helpAllFlag, "show all flags", func(string) error { return f.Set("help", "true") })
	f.Lookup(helpAllFlag).Hidden = !slices.ContainsFunc(flagNames(f), func(name string) bool { return rare(f.Lookup(name)) })
}

// rare flags are shown by --help-all only: shared ones that few people set.
func rare(f *pflag.Flag) bool { return groupOf(f) != "" && !slices.Contains(commonFlags, f.Name) }

// help prints what a command is for, how to call it, examples, and its flags by group.
func help(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s: %s\n\nUsage:\n  %s\n", cmd.CommandPath(), cmd.Short, cmd.UseLine())
	if cmd.Long != "" {
		fmt.Fprintf(out, "\n%s\n", cmd.Long)
	}
	if cmd.Example != "" {
		fmt.Fprintf(out, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprint(out, "\nCommands:\n")
		t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(t, "  %s\t%s\n", sub.Name(), sub.Short)
			}
		}
		t.Flush()
	}
	groups, hidden := flagGroups(cmd, cmd.Flags().Changed(helpAllFlag))
	for _, heading := range headings {
		if group := groups[heading]; group != nil {
			fmt.Fprintf(out, "\n%s:\n%s", heading, group.FlagUsagesWrapped(helpWidth))
		}
	}
	if hidden > 0 {
		fmt.Fprintf(out, "\n%d more flags: %s --%s\n", hidden, cmd.CommandPath(), helpAllFlag)
	}
}

// flagGroups are a command's flags by heading: all, or all but the rare ones, which are hidden.
func flagGroups(cmd *cobra.Command, all bool) (groups map[string]*pflag.FlagSet, hidden int) {
	groups = map[string]*pflag.FlagSet{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		group := cmp.Or(groupOf(f), aboutCommand)
		switch {
		case f.Hidden, f.Name == helpAllFlag:
			return
		case rare(f) && !all:
			hidden++
			return
		case groups[group] == nil:
			groups[group] = pflag.NewFlagSet("", pflag.ContinueOnError)
			groups[group].SortFlags = false
		}
		groups[group].AddFlag(f)
	})
	return groups, hidden
}

// helpCommand is `batchfs help COMMAND`.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help COMMAND", Short: "show the help of a command", Args: cobra.ArbitraryArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, _, err := cmd.Root().Find(args)
			if err != nil || about == cmd.Root() && len(args) > 0 {
				return noCommand(cmd.Root(), "help ", args[0])
			}
			return about.Help()
		},
	}
}

// completionCommand prints a script that makes a shell complete commands and flags.
func completionCommand(c *console, root *cobra.Command) *cobra.Command {
	cmd := command("completion SHELL", func(*flagSet) runner {
		return func(_ context.Context, args []string) error {
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(c.out, true)
			case "zsh":
				return root.GenZshCompletion(c.out)
			case "fish":
				return root.GenFishCompletion(c.out, true)
			}
			return usage("SHELL must be bash, zsh or fish, but is %q", args[0])
		}
	})
	cmd.ValidArgs = []cobra.Completion{"bash", "zsh", "fish"}
	return cmd
}

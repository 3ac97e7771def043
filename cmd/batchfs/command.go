package main

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// A runner runs a command whose flags were parsed.
type runner func(ctx context.Context, args []string) error

// helpTexts say what each command is for: in one line, in more detail, and by examples.
//
//go:embed help
var helpTexts embed.FS

// helpText returns the parts of a command's help text. Examples are indented by four columns, as
// Markdown wants code.
func helpText(name string) (short, long string) {
	text, err := helpTexts.ReadFile("help/" + name + ".txt")
	if err != nil {
		panic(err) // a mistake in this program
	}
	about, examples, _ := strings.Cut(string(text), "\nExamples:\n")
	short, about, _ = strings.Cut(about, "\n")
	for paragraph := range strings.SplitSeq(strings.TrimSpace(about), "\n\n") {
		long += wrapped(paragraph, helpWidth) + "\n\n"
	}
	return short, strings.TrimSpace(long + "Examples:\n\n" + strings.ReplaceAll("\n"+strings.TrimRight(examples, "\n"), "\n  ", "\n    ")[1:])
}

// command makes a command from its name and arguments, as in "convert DATASET OUT". define adds its
// flags.
func command(use string, define func(f *flagSet) runner) *cli.Command {
	name, names, _ := strings.Cut(use, " ")
	f := &flagSet{}
	run := define(f)
	cmd := &cli.Command{
		Name: name, ArgsUsage: names, Flags: append(f.flags, cli.HelpFlag), HideHelpCommand: true, CustomHelpTemplate: helpTemplate,
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return cmp.Or(f.refused, wrongUsage(err)) },
		Action: func(cmd *cli.Context) error {
			args := cmd.Args().Slice()
			if !strings.HasPrefix(names, "[") { // such arguments are optional
				if err := f.arguments(name, args, strings.Fields(names)...); err != nil {
					return err
				}
			}
			if err := f.finish(args); err != nil {
				return err
			}
			return run(cmd.Context, args)
		},
	}
	cmd.Usage, cmd.Description = helpText(name)
	return cmd
}

// arguments checks the number of a command's arguments and names the missing one. If the last name
// ends in dots, there may be several of that argument.
func (f *flagSet) arguments(command string, args []string, names ...string) error {
	several := len(names) > 0 && strings.HasSuffix(names[len(names)-1], "...")
	if len(args) < len(names) {
		missing := strings.TrimSuffix(names[len(args)], "...")
		err := hint(usage("%s is missing", missing), "batchfs %s %s", command, strings.Join(names, " "))
		if missing == "DATASET" {
			return hint(err, "%s, where DATASET is %s", hintOf(err), aDataset)
		}
		return err
	}
	if i := slices.Index(args, ""); i >= 0 && (several || i < len(names)) {
		return usage("%s must not be empty", strings.TrimSuffix(names[min(i, len(names)-1)], "..."))
	}
	if several || len(args) == len(names) {
		return nil
	}
	err := usage("too many arguments at %q: %s takes %s", args[len(names)], command, cmp.Or(strings.Join(names, " and "), "no arguments"))
	if len(names) > 0 && names[0] == "DATASET" {
		err = hint(err, "several datasets are one DATASET: a .txt file with one in each line, or a pattern in quotes, such as 'train-*.tar'")
	}
	return f.surplus(args, err)
}

// surplus adds a hint to the error about an argument that may have been meant as a switch's
// value.
func (f *flagSet) surplus(args []string, err error) error {
	meant := ""
	if i := slices.IndexFunc(args, func(a string) bool { return a == "true" || a == "false" }); i >= 0 {
		for _, name := range f.given {
			if f.setting(name).isSwitch {
				meant = name + "=" + args[i]
			}
		}
	}
	return didYouMean(err, "--", meant)
}

const (
	helpAllFlag    = "help-all"
	completionFlag = "--generate-bash-completion" // of package cli
	helpWidth      = 79                           // columns
	flagWidth      = 27                           // columns for the name of a flag
)

// helpTemplate is the help of every command, and of batchfs itself.
//
//go:embed help.tmpl
var helpTemplate string

// init makes package cli write flags as we do: within helpWidth.
func init() {
	cli.HelpFlag = &cli.BoolFlag{
		Name: "help", Aliases: []string{"h", helpAllFlag}, Usage: "show this help, or that of all flags", DisableDefaultText: true,
	}
	asTabs := cli.FlagStringer
	cli.FlagStringer = func(f cli.Flag) string {
		name, usage, _ := strings.Cut(asTabs(f), "\t")
		indent := "\n" + strings.Repeat(" ", flagWidth)
		name = fmt.Sprintf("  %-*s", flagWidth-2, name)
		if !strings.HasSuffix(name, "  ") {
			name += indent
		}
		return name + strings.ReplaceAll(wrapped(usage, helpWidth-flagWidth), "\n", indent)
	}
}

// wrapped breaks text into lines of at most width columns.
func wrapped(text string, width int) string {
	var lines []string
	for word := range strings.FieldsSeq(text) {
		if last := len(lines) - 1; last >= 0 && len(lines[last])+1+len(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return strings.Join(lines, "\n")
}

// hideRare removes flags from a command's help that only --help-all shows: shared flags that few
// people set.
func hideRare(cmd *cli.Command) {
	hidden := 0
	for _, f := range cmd.Flags {
		s := settingOf(f)
		if group(f) == "" || group(f) == internal || s != nil && s.common {
			continue
		}
		hidden++
		switch f := f.(type) {
		case *cli.GenericFlag:
			f.Hidden = true
		case *switchFlag:
			f.Hidden = true
		}
	}
	if hidden > 0 {
		cmd.CustomHelpTemplate += fmt.Sprintf("\n%d more flags: {{.HelpName}} --%s\n", hidden, helpAllFlag)
	}
}

// completions are the scripts of bash and zsh; package cli has that of fish.
//
//go:embed completion
var completions embed.FS

// completionCommand prints a script that makes a shell complete commands and flags.
func completionCommand(c *console) *cli.Command {
	return command("completion SHELL", func(*flagSet) runner {
		return func(_ context.Context, args []string) error {
			text, err := completions.ReadFile("completion/" + args[0])
			script := string(text)
			if args[0] == "fish" {
				script, err = newApp(c, true).ToFishCompletion()
				script = strings.ReplaceAll(script, "`", "")
			} else if err != nil {
				return usage("SHELL must be bash, zsh or fish, but is %q", args[0])
			}
			_, failed := io.WriteString(c.out, script)
			return cmp.Or(err, failed)
		}
	})
}

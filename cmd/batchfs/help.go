package main

import (
	"context"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	helpAllFlag = "help-all"
	helpWidth   = 110 // columns
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
	f.group = ""
	f.BoolP("help", "h", false, "show this help")
	addHelpAll(f.FlagSet)
	return cmd
}

// addHelpAll defines --help-all, which is the same as --help for a command without rare flags.
func addHelpAll(f *pflag.FlagSet) {
	f.BoolFunc(helpAllFlag, "show all flags", func(string) error { return f.Set("help", "true") })
	f.Lookup(helpAllFlag).Hidden = !slices.ContainsFunc(flagNames(f), func(name string) bool { return rare(f.Lookup(name)) })
}

// rare flags are shown by --help-all only: shared ones that few people set.
func rare(f *pflag.Flag) bool {
	group := f.Annotations[groupAnnotation]
	return len(group) > 0 && group[0] != "" && !slices.Contains(commonFlags, f.Name)
}

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
		printCommands(out, cmd)
	}
	all := cmd.Flags().Changed(helpAllFlag)
	groups := []string{""}
	shown := map[string]*pflag.FlagSet{"": pflag.NewFlagSet("", pflag.ContinueOnError)}
	hidden := 0
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Hidden, f.Name == helpAllFlag:
			return
		case rare(f) && !all:
			hidden++
			return
		}
		group := ""
		if g := f.Annotations[groupAnnotation]; len(g) > 0 {
			group = g[0]
		}
		if shown[group] == nil {
			shown[group] = pflag.NewFlagSet("", pflag.ContinueOnError)
			groups = append(groups, group)
		}
		shown[group].SortFlags = false
		shown[group].AddFlag(f)
	})
	for _, group := range append(groups[1:], "") {
		heading := group
		if heading == "" {
			heading = "Flags"
		}
		fmt.Fprintf(out, "\n%s:\n%s", heading, shown[group].FlagUsagesWrapped(helpWidth))
	}
	if hidden > 0 {
		fmt.Fprintf(out, "\n%d more flags: %s --%s\n", hidden, cmd.CommandPath(), helpAllFlag)
	}
}

func printCommands(out io.Writer, cmd *cobra.Command) {
	fmt.Fprint(out, "\nCommands:\n")
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(w, "  %s\t%s\n", sub.Name(), sub.Short)
		}
	}
	_ = w.Flush() // nothing can be done if help cannot be printed
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
	return command("completion SHELL", func(*flagSet) runner {
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
}

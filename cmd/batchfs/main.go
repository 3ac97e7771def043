// Command batchfs mounts a folder of images as a tree of training batches.
//
// It is the outermost layer: it turns flags into plain option structs, builds the parts
// (dataset, engine, mount), waits, and owns every word a user reads. The packages below
// never print, read the environment or exit.
//
// main.go runs one command line. command.go defines commands, their flags and their help from
// the texts in help/; options.go and order.go have the flags that commands share, dataset.go those of datasets
// and what is said about them, values.go what flags accept. fstab.go translates calls by mount(8).
// words.go shows errors and makes exit statuses. Every command has its own file; beside a mount, daemon.go, log.go and signals.go
// are what goes on around it.
package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// The kernel hands a signal to the main thread if it can, where it stays unseen until the end
// of a call that waits for a file system in user space: such a call must be on another thread
// for Ctrl-C to work. Locking the main goroutine, which only waits for signals and the end,
// keeps all others off the main thread.
func init() { runtime.LockOSThread() }

func main() {
	c := &console{out: os.Stdout, err: os.Stderr, env: readEnvironment(os.LookupEnv, os.Getuid()), machine: thisMachine(), signals: &signals{}}
	err := c.signals.supervise(func(ctx context.Context) error { return c.run(ctx, os.Args) })
	report(os.Stderr, err)
	os.Exit(exitStatus(err))
}

// run executes one command line; args[0] is the name the program was called by.
func (c *console) run(ctx context.Context, args []string) error {
	root := newRoot(c)
	words := args[1:]
	if asMountHelper(args) {
		var err error
		if words, err = mountWords(words); err != nil {
			mount, _, _ := root.Find([]string{"mount"}) // it exists
			return withHelp(err, mount)
		}
	}
	root.SetArgs(withWindow(longDashes(root, words)))
	cmd, err := root.ExecuteContextC(ctx)
	return withHelp(withFlag(err, cmd.Flags()), cmd)
}

func newRoot(c *console) *cobra.Command {
	cobra.EnableCommandSorting = false
	root := describe(&cobra.Command{
		Use:     "batchfs COMMAND",
		Version: version(),
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(cmd, "", args[0])
			}
			if err := cmd.Help(); err != nil {
				return err
			}
			return said(statusUsage)
		},
		SilenceErrors: true, SilenceUsage: true, // report prints them
		DisableFlagsInUseLine: true, CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	})
	helpFlags(root.Flags())
	root.Flags().BoolP("version", "v", false, "print the version")
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.SetHelpFunc(help)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagError(cmd.Flags(), err) })
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) { c.command = cmd.Name() }
	root.AddCommand(
		mountCommand(c), umountCommand(c), indexCommand(c), planCommand(c), verifyCommand(c), profileCommand(c), convertCommand(c),
		genCommand(c), benchCommand(c), statsCommand(c), whyCommand(c), doctorCommand(c), completionCommand(c, root))
	root.SetHelpCommand(helpCommand())
	return root
}

func noCommand(root *cobra.Command, before, name string) error {
	var names []string
	for _, cmd := range root.Commands() {
		names = append(names, cmd.Name())
	}
	return didYouMean(withHelp(usage("there is no command %q", name), root), "batchfs "+before, nearest(name, names))
}

// longDashes lets long flags be written with one dash, as Go programs usually do.
func longDashes(root *cobra.Command, words []string) []string {
	words = slices.Clone(words)
	for i, word := range words {
		if word == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(word, "-"), "=")
		if strings.HasPrefix(word, "-") && len(name) > 1 && name[0] != '-' &&
			slices.ContainsFunc(root.Commands(), func(cmd *cobra.Command) bool { return cmd.Flags().Lookup(name) != nil }) {
			words[i] = "-" + word
		}
	}
	return words
}

// version is the tag that this program was built from or, in Go's notation, the date and the
// commit; "+dirty" follows if files were changed. Some builds know neither.
func version() string {
	info, ok := debug.ReadBuildInfo()
	switch {
	case !ok:
		return "v0.0.0-unknown"
	case info.Main.Version == "" || info.Main.Version == "(devel)":
		return "v0.0.0-unknown, built by " + info.GoVersion + " without a commit"
	}
	return info.Main.Version
}

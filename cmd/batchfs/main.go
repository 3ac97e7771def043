// Command batchfs mounts a folder of images as a tree of training batches.
//
// It is the outermost layer: it turns flags into plain option structs, builds the parts
// (dataset, engine, mount), waits, and owns every word a user reads. The packages below
// never print, read the environment or exit.
//
// main.go runs one command line. command.go defines commands, their help from the texts in help/
// and their completion; flagset.go defines flags. options.go and order.go have the flags that
// commands share, dataset.go those of datasets and what is said about them, values.go what flags
// accept. fstab.go translates calls by mount(8). words.go shows errors and makes exit statuses,
// and otherwords.go answers words of other programs with ours. Every command has its own file;
// beside a mount, daemon.go, log.go and signals.go are what goes on around it.
package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// The kernel hands a signal to the main thread if it can, where it stays unseen until the end
// of a call that waits for a file system in user space: such a call must be on another thread
// for Ctrl-C to work. Locking the main goroutine, which only waits for signals and the end,
// keeps all others off the main thread.
func init() { runtime.LockOSThread() }

func main() {
	c := &console{out: os.Stdout, err: os.Stderr, env: readEnvironment(os.LookupEnv, os.Getuid()), machine: thisHost(), signals: &signals{}}
	err := c.signals.supervise(func(ctx context.Context) error { return c.run(ctx, os.Args) })
	report(os.Stderr, err)
	os.Exit(exitStatus(err))
}

// run executes one command line; args[0] is the name the program was called by.
func (c *console) run(ctx context.Context, args []string) error {
	words := args[1:]
	if asMountHelper(args) {
		var err error
		if words, err = mountWords(words); err != nil || words == nil {
			return withHelp(err, "batchfs mount")
		}
	}
	if len(words) > 0 && words[len(words)-1] == completionFlag {
		return newApp(c, true).RunContext(ctx, args)
	}
	app := newApp(c, slices.ContainsFunc(words, func(word string) bool { return strings.TrimLeft(word, "-") == helpAllFlag }))
	cmd, words, err := choose(app, words)
	if c.command = cmd.Name; err == nil {
		err = app.RunContext(ctx, words)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) { // a command that has more to say about it has said so
		return errInterrupted
	}
	return withHelp(withFlag(err, cmd.Flags), cmd.HelpName)
}

// choose finds the command of a command line, and puts the words into the order that package cli
// wants.
func choose(app *cli.App, words []string) (cmd *cli.Command, ordered []string, err error) {
	cmd = &cli.Command{HelpName: app.HelpName, Flags: app.Flags}
	for _, word := range words {
		if named := app.Command(word); named != nil {
			cmd = named
			break
		}
	}
	flags, args, err := arrange(cmd.Flags, words)
	before := ""
	switch {
	case len(args) == 0:
		return cmd, append([]string{app.Name}, flags...), err
	case args[0] == "version":
		return cmd, []string{app.Name, "--version"}, nil
	case args[0] == "help":
		before, flags, args = "help ", []string{"--help"}, args[1:]
	}
	if slices.Contains(flags, "--help") || slices.Contains(flags, "--help=true") { // package cli would take it for the name of a topic
		args = args[:min(1, len(args))]
	}
	if len(args) > 0 && app.Command(args[0]) == nil {
		err = noCommand(app, before, args[0])
	} else if len(args) > 0 {
		flags = slices.Concat(args[:1], flags, []string{"--"}, args[1:])
	}
	return cmd, append([]string{app.Name}, flags...), err
}

// newApp makes the commands. all says whether their help shows all flags, or only those that most
// people set.
func newApp(c *console, all bool) *cli.App {
	app := &cli.App{
		Name: "batchfs", Version: version(), Writer: c.out, ErrWriter: c.err, HideHelpCommand: true, EnableBashCompletion: true,
		Commands: []*cli.Command{
			mountCommand(c), umountCommand(c), indexCommand(c), planCommand(c), verifyCommand(c), profileCommand(c), convertCommand(c),
			unpackCommand(c), genCommand(c), benchCommand(c), statsCommand(c), whyCommand(c), doctorCommand(c), completionCommand(c),
		},
		CustomAppHelpTemplate: helpTemplate,
		ExitErrHandler:        func(*cli.Context, error) {}, // main exits
		OnUsageError:          func(_ *cli.Context, err error, _ bool) error { return wrongUsage(err) },
		Action: func(app *cli.Context) error {
			if err := cli.ShowAppHelp(app); err != nil {
				return err
			}
			return exitSilently(statusUsage)
		},
	}
	app.Usage, app.Description = helpText(app.Name)
	for _, cmd := range app.Commands {
		cmd.BashComplete = func(ctx *cli.Context) { cli.DefaultCompleteWithFlags(&cli.Command{Flags: cmd.VisibleFlags()})(ctx) }
		if !all {
			hideRare(cmd)
		}
	}
	app.Setup()
	return app
}

func noCommand(app *cli.App, before, name string) error {
	var names []string
	for _, cmd := range app.Commands {
		names = append(names, cmd.Name)
	}
	meant := cmp.Or(strings.TrimPrefix(otherWords["batchfs "+normalized(name)], "batchfs "), nearest(name, names))
	return didYouMean(withHelp(usage("there is no command %q", name), app.HelpName), "batchfs "+before, meant)
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

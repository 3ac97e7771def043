// Command batchfs mounts a folder of images as a tree of training batches.
//
// It is the outermost layer: it turns flags into plain option structs, builds the parts
// (dataset, engine, mount), waits, and owns every word a user reads. The packages below
// never print, read the environment or exit.
//
//   - main.go runs one command line; arguments.go and fstab.go bring it into the
//     form the flag parser needs; flags.go defines the flags that commands share
//     and values.go and options.go read them;
//   - words.go is how errors reach the user and become exit statuses;
//   - every command has its own file.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"
)

func main() {
	c := &console{out: os.Stdout, err: os.Stderr, env: processEnvironment(), machine: thisMachine(), signals: &signals{}}
	err := c.signals.supervise(func(ctx context.Context) error { return c.run(ctx, os.Args) })
	report(os.Stderr, err)
	os.Exit(exitStatus(err))
}

// run executes one command line; args[0] is the name the program was called by.
func (c *console) run(ctx context.Context, args []string) error {
	app := newApp(c)
	words, err := c.read(app.Commands, args)
	if errors.Is(err, errFake) {
		return nil
	}
	if err != nil {
		return err
	}
	err = app.RunContext(ctx, append([]string{app.Name}, words...))
	return withHelp(c.line.withInline(err), c.line.command)
}

// errFake ends a dry run requested by mount(8) with -f.
var errFake = errors.New("nothing was to be mounted")

// read converts a command line into the words the parser reads.
func (c *console) read(commands []*cli.Command, args []string) (words []string, err error) {
	if asMountHelper(args) {
		if c.line, err = helperLine(commands, args[1:]); err != nil {
			return nil, err
		}
		return c.line.words(), nil
	}
	if len(args) < 2 {
		return nil, nil
	}
	if strings.HasPrefix(args[1], "-") || args[1] == "help" {
		return args[1:], checkGlobal(commands, args[1:])
	}
	if c.line, err = parseCommandLine(commands, args[1:]); err != nil {
		return nil, err
	}
	return c.line.words(), nil
}

func helperLine(commands []*cli.Command, args []string) (commandLine, error) {
	call, err := parseHelperCall(args)
	if err != nil {
		return commandLine{}, err
	}
	for _, command := range commands {
		if command.Name == "mount" {
			line, err := call.mountLine(vocabularyOf(command.Flags))
			if err == nil && call.fake {
				err = errFake
			}
			return line, err
		}
	}
	return commandLine{}, errors.New("there is no mount command")
}

func newApp(c *console) *cli.App {
	return &cli.App{
		Name:    "batchfs",
		Usage:   "mount a folder of images, read its batches as plain files",
		Version: version(),
		Description: "Flags may stand before or after the arguments. Every command has --help.\n\n" +
			"Example:\n\n" +
			"   batchfs mount --batch-size 32 --shards 4 --shuffle --seed 7 photos/ mnt/ &\n" +
			"   ls mnt/shard-3/epoch-2\n" +
			"   batchfs umount mnt/",
		Writer:         c.out,
		ErrWriter:      c.err,
		ExitErrHandler: func(*cli.Context, error) {}, // only main exits
		OnUsageError:   usageErrorOf,
		Action: func(ctx *cli.Context) error { // no command
			if err := cli.ShowAppHelp(ctx); err != nil {
				return err
			}
			return &saidError{statusUsage}
		},
		Commands: []*cli.Command{
			mountCommand(c), umountCommand(c), indexCommand(c), planCommand(c), verifyCommand(c), profileCommand(c), convertCommand(c),
			genCommand(c), benchCommand(c), statsCommand(c), doctorCommand(c), readCommand(c),
		},
	}
}

// command adds what all commands share: the example at the end of the description, and no
// help subcommand, which a dataset named "help" would invoke.
func command(c cli.Command, examples string) *cli.Command {
	c.Description += "\n\nExample:\n\n   " + examples
	c.UsageText = fmt.Sprintf("batchfs %s [flags] %s", c.Name, c.ArgsUsage)
	c.HideHelpCommand = true
	c.OnUsageError = usageErrorOf
	return &c
}

// usageErrorOf turns a parser error into a usage error. Few remain: arguments.go has
// already checked every flag of a command.
func usageErrorOf(_ *cli.Context, err error, _ bool) error {
	return &usageError{message: err.Error(), hint: "batchfs --help"}
}

// version is the module version if the binary was installed from one, else the commit it
// was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "commit " + s.Value[:min(12, len(s.Value))]
		}
	}
	return "development"
}

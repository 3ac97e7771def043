package main

import (
	"cmp"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// parse runs a command line of a command with some flags, and returns its arguments.
func parse(f *flagSet, words ...string) (args []string, err error) {
	app := &cli.App{Name: "batchfs", ExitErrHandler: func(*cli.Context, error) {}, Commands: []*cli.Command{{
		Name: "try", Flags: append(f.flags, cli.HelpFlag), HideHelpCommand: true,
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return cmp.Or(f.refused, wrongUsage(err)) },
		Action: func(cmd *cli.Context) error {
			args = cmd.Args().Slice()
			return nil
		},
	}}}
	_, words, err = choose(app, append([]string{"try"}, words...))
	if err == nil {
		err = app.Run(words)
	}
	return args, err
}

// parsed returns the flags and arguments of a command line of a small command with two switches,
// two values, and -o.
func parsed(line string) (flags, args string, err error) {
	f := &flagSet{}
	f.toggle(new(bool), "shuffle", false, "")
	f.toggle(new(bool), "json", false, "")
	f.derived("seed", "", "`N`", anything(new(string), "a text"))
	f.derived("list", "", "`N`", anything(new(string), "a text"))
	f.flags = append(f.flags, &cli.GenericFlag{Name: optionFlag, Aliases: []string{"o"}, Value: expanded{}})
	words, err := parse(f, strings.Fields(line)...)
	return strings.Join(f.spelled(), " "), strings.Join(words, " "), err
}

func TestCommandLines(t *testing.T) {
	const ignored = "defaults,rw,ro,_netdev,user,users,user=alice,noauto,auto,nofail,nosuid,nodev,noexec,dev,suid,exec,relatime," +
		"x-systemd.automount,x-gvfs-show,X-mount.mkdir,comment=photos,default_permissions"
	for _, test := range []struct {
		name            string
		in, flags, args string // space-separated; flags in the order of their definition or use
	}{
		{"nothing", "", "", ""},
		{"flags first", "--seed 7 a b", "--seed=7", "a b"},
		{"flags last", "a b --seed 7 --shuffle", "--seed=7 --shuffle=true", "a b"},
		{"flags between", "a --shuffle b --seed=7", "--shuffle=true --seed=7", "a b"},
		{"a switch takes no value", "--shuffle a b", "--shuffle=true", "a b"},
		{"a switch with a value", "--shuffle=false a", "--shuffle=false", "a"},
		{"one dash", "-seed 7 a -shuffle", "--seed=7 --shuffle=true", "a"},
		{"one dash and an equals sign", "-seed=7 a", "--seed=7", "a"},
		{"a value that looks like a flag", "--seed --shuffle a", "--seed=--shuffle", "a"},
		{"a negative value", "a --seed -5", "--seed=-5", "a"},
		{"a value with an equals sign", "--list=a=b c", "--list=a=b", "c"},
		{"behind a double dash all is argument", "a --shuffle -- --seed 7 -seed", "--shuffle=true", "a --seed 7 -seed"},
		{"a double dash as a value", "--seed -- a", "--seed=--", "a"},
		{"a lone dash is an argument", "- --shuffle", "--shuffle=true", "-"},
		{"the last of the same wins", "--seed 1 a --seed 2", "--seed=2", "a"},
		{"options", "a b -o shuffle,seed=7,rw,x-systemd.automount,nofail", "--shuffle=true --seed=7", "a b"},
		{"options that mean nothing", "-o " + ignored, "", ""},
		{"arguments like commands, flags and settings", "help --seed=1 h seed -", "--seed=1", "help h seed -"},
		{"options before flags", "-o seed=1 a --seed 2", "--seed=2", "a"},
		{"options after flags", "--seed=2 -o seed=1 a", "--seed=1", "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			flags, args, err := parsed(test.in)
			if err != nil || flags != test.flags || args != test.args {
				t.Errorf("flags %q, want %q; arguments %q, want %q; %v", flags, test.flags, args, test.args, err)
			}
		})
	}
}

package main

import (
	"flag"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testWords is a small command: two switches, two values, and -o.
var testWords = vocabulary{"shuffle": boolFlag, "json": boolFlag, "seed": valueFlag, "list": valueFlag, "o": optionFlag, "help": boolFlag, "h": boolFlag}

func TestSortArguments(t *testing.T) {
	for _, test := range []struct {
		name            string
		in, flags, args string // space-separated
	}{
		{"nothing", "", "", ""},
		{"flags first", "--seed 7 a b", "--seed=7", "a b"},
		{"flags last", "a b --seed 7 --shuffle", "--seed=7 --shuffle", "a b"},
		{"flags between", "a --shuffle b --seed=7", "--shuffle --seed=7", "a b"},
		{"a switch takes no value", "--shuffle a b", "--shuffle", "a b"},
		{"a switch with a value", "--shuffle=false a", "--shuffle=false", "a"},
		{"one dash", "-seed 7 a -shuffle", "--seed=7 --shuffle", "a"},
		{"a value that looks like a flag", "--seed --shuffle a", "--seed=--shuffle", "a"},
		{"a negative value", "a --seed -5", "--seed=-5", "a"},
		{"a value with an equals sign", "--list=a=b c", "--list=a=b", "c"},
		{"behind a double dash all is argument", "a --shuffle -- --seed 7 --nonsense", "--shuffle", "a --seed 7 --nonsense"},
		{"a double dash as a value", "--seed -- a", "--seed=--", "a"},
		{"a lone dash is an argument", "- --shuffle", "--shuffle", "-"},
		{"the last of the same wins later", "--seed 1 a --seed 2", "--seed=1 --seed=2", "a"},
		{"options", "a b -o shuffle,seed=7,rw,x-systemd.automount,nofail", "--shuffle --seed=7", "a b"},
		{"options beside flags", "-o seed=1 a --seed 2", "--seed=1 --seed=2", "a"},
		{"help", "a b -h", "-h", "a b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			line, err := sortArguments(testWords, strings.Fields(test.in))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(line.flags, " "); got != test.flags {
				t.Errorf("flags %q, want %q", got, test.flags)
			}
			if got := strings.Join(line.arguments, " "); got != test.args {
				t.Errorf("arguments %q, want %q", got, test.args)
			}
		})
	}
}

func TestSortArgumentsRefuses(t *testing.T) {
	for _, test := range []struct{ in, message string }{
		{"a --seed", "--seed needs a value"},
		{"-o", "-o needs a value"},
		{"a --sede 7", "there is no flag --sede here"},
		{"-x", "there is no flag -x here"},
		{"---seed 7", "there is no flag ---seed here"},
		{"--=7", "there is no flag -- here"},
		{"--shuffle=maybe", `--shuffle must be true or false, but is "maybe"`},
		{"-o shuffle=maybe", `--shuffle must be true or false, but is "maybe"`},
		{"-o seed", "-o seed needs a value, as in -o seed=..."},
		{"-o nonsense=1", "-o nonsense is no option of a batchfs mount"},
		{"-o help", "-o help is no option of a batchfs mount"},
		{"-o o=shuffle", "-o o is no option of a batchfs mount"},
	} {
		_, err := sortArguments(testWords, strings.Fields(test.in))
		if err == nil || err.Error() != test.message {
			t.Errorf("%q: got %v, want %q", test.in, err, test.message)
		}
		if exitStatus(err) != statusUsage {
			t.Errorf("%q: exit status %d, want %d", test.in, exitStatus(err), statusUsage)
		}
	}
}

// FuzzSortArguments checks against the flag parser itself: given the sorted words, it must
// see every flag and leave exactly the arguments.
func FuzzSortArguments(f *testing.F) {
	for _, seed := range []string{
		"a b --seed 7", "--shuffle a -- --seed", "-seed=-1 --list= x", "--json=false - -- --", "a --help b", "--list -- a --shuffle",
	} {
		f.Add(seed)
	}
	words := vocabulary{"shuffle": boolFlag, "json": boolFlag, "seed": valueFlag, "list": valueFlag}
	f.Fuzz(func(t *testing.T, text string) {
		in := strings.Split(text, " ")
		line, err := sortArguments(words, in)
		if err != nil {
			return
		}
		flags, args := line.flags, line.arguments
		set := flag.NewFlagSet("", flag.ContinueOnError)
		set.SetOutput(io.Discard)
		values := map[string]*string{"seed": set.String("seed", "", ""), "list": set.String("list", "", "")}
		set.Bool("shuffle", false, "")
		set.Bool("json", false, "")
		if err := set.Parse(append(append(slices.Clone(flags), "--"), args...)); err != nil {
			t.Fatalf("%q sorted into %q, which the parser refuses: %v", in, flags, err)
		}
		if diff := cmp.Diff(args, set.Args()); len(args)+set.NArg() > 0 && diff != "" {
			t.Fatalf("%q: the parser sees other arguments:\n%s", in, diff)
		}
		for _, a := range args {
			if !slices.Contains(in, a) {
				t.Fatalf("%q: argument %q was not there", in, a)
			}
		}
		for name, value := range values {
			if want := lastValue(in, words, name); *value != want {
				t.Fatalf("%q: --%s is %q, want %q", in, name, *value, want)
			}
		}
	})
}

// lastValue computes the value of a flag independently: it walks over the words and skips
// what each flag takes.
func lastValue(in []string, words vocabulary, name string) (value string) {
	for len(in) > 0 && in[0] != "--" {
		word := in[0]
		in = in[1:]
		if !strings.HasPrefix(word, "-") || word == "-" {
			continue
		}
		stem, inline, hasInline := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-"), "=")
		if words[stem] != valueFlag {
			continue
		}
		if !hasInline {
			inline, in = in[0], in[1:]
		}
		if stem == name {
			value = inline
		}
	}
	return value
}

func TestNearest(t *testing.T) {
	words := []string{"mount", "umount", "index", "plan", "verify", "gen", "bench", "stats", "doctor"}
	for typed, want := range map[string]string{
		"mout": "mount", "moutn": "mount", "unmount": "umount", "stat": "stats", "verfiy": "verify", "completely": "", "": "",
	} {
		if got := nearest(typed, words); got != want {
			t.Errorf("nearest(%q) is %q, want %q", typed, got, want)
		}
	}
}

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// TestOtherWordsAreRight: words that otherwords.txt proposes are accepted, and the words it
// translates are not.
func TestOtherWordsAreRight(t *testing.T) {
	var flags []cli.Flag
	commands := newApp(&console{}, true)
	for _, cmd := range commands.Commands {
		flags = append(flags, cmd.Flags...)
	}
	accepted := func(name, value string) bool {
		flag, ok := find(flags, name).(*cli.GenericFlag)
		return ok && flag.Value.(*setting).parse(value) == ""
	}
	text := strings.TrimSpace(otherWordsText[strings.Index(otherWordsText, "\n\n"):])
	for line := range strings.Lines(text) {
		words, ours, ok := strings.Cut(strings.TrimSpace(line), " => ")
		switch meant := strings.Fields(strings.TrimPrefix(ours, "--shuffle=")); {
		case line == "\n":
			continue
		case !ok || ours == "":
			t.Errorf("%q", line)
		case meant[0] == "batchfs" && commands.Command(meant[1]) == nil, strings.HasPrefix(meant[0], "--") && find(flags, meant[0][2:]) == nil:
			t.Errorf("there is no %s", ours)
		case strings.HasPrefix(meant[0], "--") && len(meant) > 1 && meant[1] != "HxW" && !accepted(meant[0][2:], meant[1]):
			t.Errorf("%s is not accepted", ours)
		}
		for word := range strings.SplitSeq(words, ", ") {
			parts := strings.Fields(strings.TrimLeft(word, "-"))
			switch {
			case parts[0] == "batchfs" && commands.Command(parts[1]) != nil, len(parts) == 2 && parts[0] != "batchfs" && accepted(parts[0], parts[1]):
				t.Errorf("%s is one of our words", word)
			case len(parts) == 1 && find(flags, parts[0]) != nil && !slices.Contains([]string{"rank", "world-size"}, parts[0]):
				t.Errorf("%s is a flag of ours", word)
			}
		}
	}
}

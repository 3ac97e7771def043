package main

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// otherWords maps words of other programs to what was probably meant: our words, or advice.
var otherWords = func() map[string]string {
	meant := map[string]string{}
	for line := range strings.Lines(otherWordsText) {
		words, ours, _ := strings.Cut(strings.TrimSpace(line), " => ")
		for word := range strings.SplitSeq(words, ", ") {
			meant[normalized(word)] = ours
		}
	}
	return meant
}()

//go:embed otherwords.txt
var otherWordsText string

// normalized removes everything from words that may differ between spellings.
func normalized(words string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(words))
}

// instead adds what was probably meant to the error about a value.
func (s *setting) instead(err error, text string) error {
	meant := otherWords[normalized(s.name+" "+text)]
	for word := range strings.FieldsFuncSeq(s.usage, func(r rune) bool { return strings.ContainsRune(" ,:;|()`", r) }) {
		if same := normalized(text); same != "" && normalized(word) == same && s.parse(word) == "" {
			meant = "--" + s.name + " " + word
		}
	}
	if square := strings.Trim(text, "()[] "); s.name == "size" { // 224, or (224, 224)
		height, width, two := strings.Cut(square, ",")
		if square = height + "x" + strings.TrimSpace(width); !two {
			square = height + "x" + height
		}
		if s.parse(square) == "" {
			meant = "--size " + square
		}
	}
	return didYouMean(err, "", meant)
}

// unknownFlag refuses a flag, and suggests a flag of the command that was probably meant.
func unknownFlag(flags []cli.Flag, word, name string) error {
	if name != "" {
		word, _, _ = strings.Cut(word, "=")
	}
	err, names := usage("unknown flag %s", word), flagNames(flags)
	ours := otherWords[normalized(name)]
	flag, isFlag := strings.CutPrefix(ours, "--")
	flag, _, _ = strings.Cut(strings.ReplaceAll(flag, "=", " "), " ")
	positive, negated := strings.CutPrefix(name, "no-")
	switch {
	case ours != "" && !isFlag:
		return hint(err, "%s", ours)
	case slices.Contains(names, flag):
		return didYouMean(err, "", ours)
	case negated && slices.Contains(names, positive) && !find(flags, positive).TakesValue():
		return didYouMean(err, "--", positive+"=false")
	}
	return didYouMean(err, "--", nearest(name, names))
}

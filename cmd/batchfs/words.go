package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/xrash/smetrics"

	"github.com/batchfs/batchfs/internal/option"
)

// usageError is an invalid command line: exit status 2. It names the flag or argument, the
// rule and the value.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// hintedError is a failure with a command to run next.
type hintedError struct {
	error
	hint string
}

func (e *hintedError) Unwrap() error { return e.error }

// errInterrupted is the error of a command ended by a signal.
var errInterrupted = errors.New("interrupted")

// errAbandoned is its error if the command did not stop by itself.
var errAbandoned = errors.New("interrupted; did not wait for what does not respond")

// saidError ends the process with a status when the user already knows why: from the report
// of a command, or from a daemon that printed its own error.
type saidError struct{ status int }

func (e *saidError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// usage makes a usageError without a hint; run adds the command's help.
func usage(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// badValue is the error for every refused flag: its name, the rule, the value.
func badValue(flag, rule, value string) error {
	return usage("--%s must be %s, but is %q", flag, rule, value)
}

// withHelp gives a usage error without a hint one: the help of the command.
func withHelp(err error, cmd *cobra.Command) error {
	if wrong, ok := err.(*usageError); ok {
		return hint(wrong, "%s --help", cmd.CommandPath())
	}
	return err
}

// didYouMean suggests what was probably meant, if that is known.
func didYouMean(err error, before, meant string) error {
	if meant == "" {
		return err
	}
	return hint(err, "did you mean: %s%s", before, meant)
}

// withFlag names the flag that belongs to an option that a package below rejected: the one
// of that name, or else the nearest.
func withFlag(err error, flags *pflag.FlagSet) error {
	bad, ok := errors.AsType[*option.Error](err)
	if !ok {
		return err
	}
	wrong := error(&usageError{bad})
	if near := nearest(strings.ReplaceAll(bad.Field, " ", "-"), flagNames(flags)); near != "" {
		wrong = badValue(near, bad.Rule, bad.Value)
	}
	if text := hintOf(err); text != "" {
		return hint(wrong, "%s", text)
	}
	return wrong
}

// unfit is a usage error found late: options that do not fit the dataset.
func unfit(dataset string, err error) error {
	return hint(&usageError{err}, "for the number and sizes of the images: batchfs index %s", shellWord(dataset))
}

// hint attaches a command to run to an error.
func hint(err error, format string, args ...any) error {
	return &hintedError{err, fmt.Sprintf(format, args...)}
}

// advice is what to do about an error.
type advice struct {
	about error
	hint  string
}

// advise attaches the first advice about an error, if there is an error.
func advise(err error, list ...advice) error {
	for _, a := range list {
		if err != nil && errors.Is(err, a.about) {
			return hint(err, "%s", a.hint)
		}
	}
	return err
}

// The exit statuses, the same for every command.
const (
	statusDone   = 0
	statusFailed = 1
	statusUsage  = 2
)

// exitStatus is the only place where an error becomes an exit status.
func exitStatus(err error) int {
	if err == nil {
		return statusDone
	}
	if said, ok := errors.AsType[*saidError](err); ok {
		return said.status
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return statusUsage
	}
	return statusFailed
}

// report prints an error and its hint.
func report(w io.Writer, err error) {
	if _, said := errors.AsType[*saidError](err); err == nil || said {
		return
	}
	fmt.Fprintf(w, "batchfs: error: %s\n", oneLine(err.Error()))
	if text := hintOf(err); text != "" {
		fmt.Fprintf(w, "batchfs: hint: %s\n", text)
	}
}

// hintOf returns the outermost hint of an error.
func hintOf(err error) string {
	if hinted, ok := errors.AsType[*hintedError](err); ok {
		return hinted.hint
	}
	return ""
}

// oneLine puts an error on one line, so that programs can parse it, and removes control
// characters that file names could use to control the terminal.
func oneLine(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, strings.Join(lines, "; "))
}

// shown is a file name in printable form. It is quoted as in Go if it would break the line,
// control the terminal, or looks quoted already.
func shown(name string) string {
	unprintable := func(r rune) bool { return !strconv.IsPrint(r) }
	if strings.HasPrefix(name, `"`) || !utf8.ValidString(name) || strings.ContainsFunc(name, unprintable) {
		return strconv.Quote(name)
	}
	return name
}

// shellWord quotes a path so that it can be copied into a shell.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,@%"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// count writes a number with its noun: "1 image", "96 images".
func count[T int | int64](n T, noun string) string {
	switch stem, y := strings.CutSuffix(noun, "py"); {
	case n == 1:
	case y:
		noun = stem + "pies"
	case strings.HasSuffix(noun, "ss") || strings.HasSuffix(noun, "ch"):
		noun += "es"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// nearest returns the word closest to a mistyped one, or "" if none is close. Of equally
// close words it takes the first in the alphabet. A word that would have to be replaced
// altogether is not close.
func nearest(typed string, words []string) string {
	best, found := 1+len(typed)/3, ""
	for _, w := range slices.Sorted(slices.Values(words)) {
		if d := smetrics.WagnerFischer(typed, w, 1, 1, 1); d < len(w) && (d < best || d == best && found == "") {
			best, found = d, w
		}
	}
	return found
}

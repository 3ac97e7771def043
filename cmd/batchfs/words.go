package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// usageError is a command line that makes no sense: exit status 2. It names
// the flag or argument, the rule and the value.
type usageError struct {
	message string
	hint    string
	surplus bool // an argument is one too many
}

func (e *usageError) Error() string { return e.message }

// hintedError is a failure for which there is a command to run next.
type hintedError struct {
	err  error
	hint string
}

func (e *hintedError) Error() string { return e.err.Error() }
func (e *hintedError) Unwrap() error { return e.err }

// errInterrupted is the end of a command that a signal asked for.
var errInterrupted = errors.New("interrupted")

// errAbandoned is its end where it could not stop by itself.
var errAbandoned = errors.New("interrupted, without waiting for what does not answer")

// saidError ends the process with a status when the user was told why
// already: the report of a command, or a daemon that spoke for itself.
type saidError struct{ status int }

func (e *saidError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// usage makes a usageError without a hint of its own; run adds the command's
// help.
func usage(format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...)}
}

// badValue is how every refused flag reads: its name, the rule, the value.
func badValue(flag, rule, value string) error {
	return usage("--%s must be %s, but is %q", flag, rule, value)
}

// hint attaches a command to run to an error.
func hint(err error, format string, args ...any) error {
	return &hintedError{err: err, hint: fmt.Sprintf(format, args...)}
}

// The exit statuses, the same for every command.
const (
	statusDone   = 0
	statusFailed = 1
	statusUsage  = 2
)

// exitStatus is the one place where an error becomes a process's status.
func exitStatus(err error) int {
	var said *saidError
	var wrong *usageError
	switch {
	case err == nil:
		return statusDone
	case errors.As(err, &said):
		return said.status
	case errors.As(err, &wrong):
		return statusUsage
	}
	return statusFailed
}

// report tells the user about an error, and what to do about it.
func report(w io.Writer, err error) {
	var said *saidError
	if err == nil || errors.As(err, &said) {
		return
	}
	fmt.Fprintf(w, "batchfs: error: %s\n", oneLine(err.Error()))
	if text := hintOf(err); text != "" {
		fmt.Fprintf(w, "batchfs: hint: %s\n", text)
	}
}

// hintOf finds the hint that lies nearest to the outside of an error.
func hintOf(err error) string {
	var wrong *usageError
	var hinted *hintedError
	switch {
	case errors.As(err, &hinted):
		return hinted.hint
	case errors.As(err, &wrong):
		return wrong.hint
	}
	return ""
}

// oneLine keeps an error to one line, so that programs can read it as one, and from
// commanding the terminal, whatever the names of files in it.
func oneLine(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, strings.Join(lines, "; "))
}

// shown is a file's name as it can be printed: quoted, as in Go, where it would not
// stay on its line, would command the terminal, or looks quoted already.
func shown(name string) string {
	unprintable := func(r rune) bool { return !strconv.IsPrint(r) }
	if strings.HasPrefix(name, `"`) || !utf8.ValidString(name) || strings.ContainsFunc(name, unprintable) {
		return strconv.Quote(name)
	}
	return name
}

// count writes a number with its noun: "1 image", "96 images".
func count[T int | int64](n T, noun string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, noun)
	}
	if stem, ok := strings.CutSuffix(noun, "ss"); ok {
		return fmt.Sprintf("%d %ssses", n, stem)
	}
	if stem, ok := strings.CutSuffix(noun, "ch"); ok {
		return fmt.Sprintf("%d %sches", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

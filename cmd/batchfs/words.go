package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize/english"
	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"
	"golang.org/x/sys/unix"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/internal/engine"
	"github.com/batchfs/batchfs/internal/gpu"
	"github.com/batchfs/batchfs/internal/option"
	"github.com/batchfs/batchfs/internal/store"
)

// A messageError carries what its reader needs besides the message.
type messageError struct {
	error
	hint   string // a command to run next; "": none
	status int    // exit status of the process
}

func (e *messageError) Unwrap() error { return e.error }

// These are the exit statuses, the same for every command.
const (
	statusDone   = 0
	statusFailed = 1
	statusUsage  = 2
)

// errInterrupted is the error of a command ended by a signal.
var errInterrupted = errors.New("interrupted")

// errAbandoned is the error of such a command if it did not stop by itself.
var errAbandoned = errors.New("interrupted; did not wait for what does not respond")

// errReported is the error when the user already knows why: from the report of a command, or from
// a daemon that printed its own error.
var errReported = errors.New("the reason was printed")

// exitSilently ends the process with a status, and without a message.
func exitSilently(status int) error { return &messageError{errReported, "", status} }

// usage is the error of an invalid command line. It names the flag or argument, the rule and
// the value. Without another hint, it gets the command's help.
func usage(format string, args ...any) error { return wrongUsage(fmt.Errorf(format, args...)) }

func wrongUsage(err error) error { return &messageError{err, "", statusUsage} }

// hint attaches a command to run to an error.
func hint(err error, format string, args ...any) error {
	return &messageError{err, fmt.Sprintf(format, args...), exitStatus(err)}
}

// badValue is the error for every refused flag: its name, the rule, the value.
func badValue(flag, rule, value string) error {
	return usage("--%s must be %s, but is %q", flag, rule, value)
}

// withHelp adds a hint to a usage error that has none: the help of the command.
func withHelp(err error, command string) error {
	if exitStatus(err) == statusUsage && hintOf(err) == "" && !errors.Is(err, errReported) {
		return hint(err, "%s --help", command)
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

// withFlag names the flag that sets an option which a package below rejected: the one of that name,
// or else the nearest.
func withFlag(err error, flags []cli.Flag) error {
	bad, ok := errors.AsType[*option.Error](err)
	if !ok {
		return err
	}
	wrong := wrongUsage(bad)
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
	bad, ok := errors.AsType[*option.Error](err)
	if ok && bad.Field == "size" {
		return hint(wrongUsage(err), "to crop the images to this size: --resize not-smaller; to shrink and pad them: --resize not-larger")
	}
	if ok && bad.Field == "ignore index" {
		return hint(wrongUsage(err), "leave out --ignore-index, or choose a number that no class has; losses ignore it: CrossEntropyLoss(ignore_index=255)")
	}
	return hint(wrongUsage(err), "for the number and sizes of the images: batchfs index %s", shellWord(dataset))
}

// advice says what to do about an error.
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

// remedies are advice about errors of opens that are no file's fault.
var remedies = []advice{
	{engine.ErrTooBig, "make batches smaller: --batch-size, or --resize with --size"},
	{unix.EMFILE, "raise the limit on open files (ulimit -n, or LimitNOFILE of the service), or hold fewer batches open"},
	{unix.ENFILE, "raise the system's limit on open files (sysctl fs.file-max)"},
	{decode.ErrMemory, kernelRefuses},
	{unix.ENOMEM, kernelRefuses},
	{unix.ENOSPC, kernelRefuses}, // of the tmpfs that batches are in
	{unix.EFBIG, "raise the limit on the size of files (ulimit -f, or LimitFSIZE of the service)"}, // also of batches
	{engine.ErrNoRoomOnGPU, "raise --device-memory-limit, hold fewer .cuda files open, or make batches smaller"},
	{gpu.ErrMemory, "raise --device-memory-limit, or leave more of the GPU's memory free (nvidia-smi)"},
	{gpu.ErrLost, "see dmesg and nvidia-smi; mount again to use the GPU. All that does without it is served"},
	{gpu.ErrNVJPEG, "see dmesg and nvidia-smi; --gpu-decode exact and off do without nvJPEG"},
	{engine.ErrNoMemory, "raise --memory-limit, hold fewer batches open, or make batches smaller"},
	{store.ErrDenied, "renew the credentials for the dataset's store where they are kept; the batch is tried again at its next open"},
	{store.ErrNoRange, wholeObjects},
	{engine.ErrPanic, "this is a bug in batchfs; please report it with the stack"},
}

const kernelRefuses = "the kernel refuses memory: check ulimit -v, the control group's limit and vm.overcommit_memory, or lower --memory-limit"

// wholeObjects is what to do about a server that has no use for the header Range.
const wholeObjects = "copy the dataset to a disk or an object store; or have the server answer requests for byte ranges, uncompressed"

// remedy returns advice about an error of an open that is not the fault of a file.
func remedy(err error) string {
	return cmp.Or(hintOf(advise(err, remedies...)), "check the dataset's storage; the batch is tried again at its next open")
}

// exitStatus is the only place where an error becomes an exit status.
func exitStatus(err error) int {
	if err == nil {
		return statusDone
	}
	if t, ok := errors.AsType[*messageError](err); ok {
		return t.status
	}
	return statusFailed
}

// report prints an error and its hint.
func report(w io.Writer, err error) {
	if err == nil || errors.Is(err, errReported) {
		return
	}
	fmt.Fprintf(w, "batchfs: error: %s\n", oneLine(err.Error()))
	if text := hintOf(err); text != "" {
		fmt.Fprintf(w, "batchfs: hint: %s\n", text)
	}
}

// hintOf returns the outermost hint of an error.
func hintOf(err error) string {
	if t, ok := errors.AsType[*messageError](err); ok {
		return t.hint
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

// displayName returns a file name in printable form. It is quoted as in Go if it would break the
// line, control the terminal, or looks quoted already.
func displayName(name string) string {
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
	return fmt.Sprintf("%d %s", n, english.PluralWord(int(n), noun, ""))
}

// nearest returns the word closest to a mistyped one, or "" if none is close. Of equally
// close words it takes the first in the alphabet. A word that would have to be replaced
// altogether is not close.
func nearest(typed string, words []string) string {
	best, found := 1+len(typed)/4, ""
	for _, w := range slices.Sorted(slices.Values(words)) {
		if d := smetrics.WagnerFischer(typed, w, 1, 1, 1); d < len(w) && (d < best || d == best && found == "") {
			best, found = d, w
		}
	}
	return found
}

package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

const optionFlag = "options" // -o, a mount's flags in fstab syntax: -o key=value,key,...

// ignoredOptions are generic options that mount(8) and fstab pass to every file system.
// They have no meaning for a tree that is read-only and holds no programs or devices.
var ignoredOptions = []string{
	"defaults", "rw", "ro", "auto", "noauto", "user", "users", "nouser", "owner", "group", "nofail", "_netdev",
	"dev", "nodev", "suid", "nosuid", "exec", "noexec", "sync", "async", "dirsync", "loud", "silent", "mand", "nomand",
	"atime", "noatime", "diratime", "nodiratime", "relatime", "norelatime", "strictatime", "nostrictatime",
	"lazytime", "nolazytime", "iversion", "noiversion", "default_permissions", "comment",
}

// expanded is the value of -o for package cli, which never sees one: fstabFlags has turned it into
// flags.
type expanded struct{}

func (expanded) Set(string) error { return nil }
func (expanded) String() string   { return "" }

// fstabFlags returns the flags in a value of -o, in which each option sets the flag of its name.
// Underscores count as dashes, since fstab's own options have them (allow_other).
func fstabFlags(flags []cli.Flag, list string) (words []string, err error) {
	known := slices.DeleteFunc(slices.Clone(flags), func(f cli.Flag) bool { return settingOf(f) == nil || group(f) == internal })
	for _, option := range splitOptions(list) {
		key, _, hasValue := strings.Cut(option, "=")
		// Such as x-systemd.automount.
		if option == "" || slices.Contains(ignoredOptions, key) || strings.HasPrefix(strings.ToLower(key), "x-") {
			continue
		}
		name := strings.ReplaceAll(key, "_", "-")
		f := find(known, name)
		switch {
		case f == nil:
			return nil, didYouMean(usage("unknown option -o %s", key), "-o ", nearest(name, flagNames(known)))
		case !hasValue && f.TakesValue():
			return nil, usage("-o %s needs a value, as in -o %s=...", key, key)
		}
		words = append(words, "--"+f.Names()[0]+option[len(key):])
	}
	return words, nil
}

// An option ends at a comma, except after a backslash or inside double quotes: list=nhwc\,json
// and list="nhwc,json" both hold two forms.
var (
	fstabOption  = regexp.MustCompile(`(?s)(\\.|"(\\.|[^"\\])*"?|[^,])*`)
	fstabQuoting = regexp.MustCompile(`(?s)\\(.)|"`)
)

func splitOptions(list string) []string {
	options := fstabOption.FindAllString(list, -1)
	for i, option := range options {
		options[i] = fstabQuoting.ReplaceAllString(option, "$1")
	}
	return options
}

// asMountHelper recognizes how mount(8) calls a file system's program:
//
//	mount.batchfs DATASET MOUNTPOINT [-sfnv] [-N NAMESPACE] [-t TYPE] [-o OPTIONS]
//	batchfs DATASET MOUNTPOINT [-o OPTIONS]        from mount.fuse, type fuse.batchfs
//
// Nothing waits in front of a mount from fstab, so it runs as a daemon.
func asMountHelper(args []string) bool {
	switch filepath.Base(args[0]) {
	case "mount.batchfs", "mount.fuse.batchfs":
		return true
	}
	return len(args) >= 3 && filepath.IsAbs(args[1]) && filepath.IsAbs(args[2])
}

// mountWords turns the arguments of a call by mount(8) into a command line; nil: there is nothing
// to do. Only -f and -o have a meaning here.
func mountWords(args []string) ([]string, error) {
	var flags []cli.Flag
	for letter := range strings.SplitSeq("fsnvrw", "") {
		flags = append(flags, &cli.BoolFlag{Name: letter})
	}
	for letter := range strings.SplitSeq("otN", "") {
		flags = append(flags, &cli.StringFlag{Name: letter})
	}
	options, arguments, err := arrange(flags, args)
	if err != nil {
		return nil, err
	}
	if len(arguments) != 2 {
		return nil, usage("mount.batchfs takes a dataset and a mountpoint, but got %s", count(len(arguments), "argument"))
	}
	if slices.Contains(options, "--f") {
		return nil, nil
	}
	words := []string{"mount", "--daemon"}
	for _, option := range options {
		if list, ok := strings.CutPrefix(option, "--o="); ok {
			words = append(words, "-o", list)
		}
	}
	return append(append(words, "--"), arguments...), nil
}

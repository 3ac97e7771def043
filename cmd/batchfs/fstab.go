package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

const (
	optionFlag = "options" // -o, a mount's flags in fstab syntax: -o key=value,key,...
	fakeFlag   = "fake"
	sloppyFlag = "sloppy"
)

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
// Underscores count as dashes, since fstab's own options have them (allow_other). Unknown options
// are dropped if sloppy is true, as mount -s requires.
func fstabFlags(flags []cli.Flag, list string, sloppy bool) (words []string, err error) {
	last := "" // the previous option, if it has a value
	for _, option := range splitOptions(list) {
		key, _, hasValue := strings.Cut(option, "=")
		if option == "" || slices.Contains(ignoredOptions, key) || strings.HasPrefix(strings.ToLower(key), "x-") { // x-systemd.automount
			continue
		}
		f := find(flags, strings.ReplaceAll(key, "_", "-"))
		switch s := settingOf(f); {
		case s == nil || group(f) == internal:
			if sloppy {
				continue
			}
			return nil, unknownOption(flags, key, hasValue, last)
		case !hasValue && !s.isSwitch:
			return nil, usage("-o %s needs a value, as in -o %s=...", key, key)
		}
		words = append(words, "--"+f.Names()[0]+option[len(key):])
		if last = ""; hasValue {
			last = strings.ReplaceAll(option, ",", `\,`)
		}
	}
	return words, nil
}

// unknownOption refuses an option. The option may be the rest of the previous one's value.
func unknownOption(flags []cli.Flag, key string, hasValue bool, last string) error {
	known := slices.DeleteFunc(slices.Clone(flags), func(f cli.Flag) bool { return settingOf(f) == nil })
	wrong, near := usage("unknown option -o %s", key), nearest(strings.ReplaceAll(key, "_", "-"), flagNames(known))
	if near == "" && !hasValue && last != "" {
		return hint(wrong, `a comma within a value is written with a backslash, as in -o '%s\,%s'`, last, key)
	}
	return didYouMean(wrong, "-o ", near)
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

// mountWords turns the arguments of a call by mount(8) into a command line.
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
	words := []string{"mount", "--daemon"}
	for _, option := range options { // other options have no meaning here
		switch name, value, _ := strings.Cut(option, "="); name {
		case "--f":
			words = append(words, "--"+fakeFlag)
		case "--s": // these come before the options
			words = slices.Insert(words, 2, "--"+sloppyFlag)
		case "--o":
			words = append(words, "-o", value)
		}
	}
	return append(append(words, "--"), arguments...), nil
}

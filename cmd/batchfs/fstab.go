package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// optionFlagName is the flag that carries a mount's flags in fstab syntax: -o
// key=value,key,...
const optionFlagName = "o"

// ignoredOptions are generic options that mount(8) and fstab pass to every file system.
// They have no meaning for a tree that is read-only and holds no programs or devices.
var ignoredOptions = []string{
	"defaults", "rw", "ro", "auto", "noauto", "user", "users", "nouser", "owner", "group", "nofail", "_netdev",
	"dev", "nodev", "suid", "nosuid", "exec", "noexec", "sync", "async", "dirsync", "loud", "silent", "mand", "nomand",
	"atime", "noatime", "diratime", "nodiratime", "relatime", "norelatime", "strictatime", "nostrictatime",
	"lazytime", "nolazytime", "iversion", "noiversion", "default_permissions",
}

// ignoredOption also recognizes the families x-systemd.automount, comment=..., user=NAME.
func ignoredOption(key string) bool {
	return slices.Contains(ignoredOptions, key) || key == "comment" ||
		strings.HasPrefix(key, "x-") || strings.HasPrefix(key, "X-")
}

// expandOptions turns the value of -o into flags. Underscores in a key count as dashes,
// since fstab's own options have them (allow_other). sloppy drops unknown options, as mount
// -s requires.
func expandOptions(words vocabulary, list string, sloppy bool) ([]string, error) {
	var flags []string
	last := "" // the previous option, if it has a value
	for _, option := range splitOptions(list) {
		key, value, hasValue := strings.Cut(option, "=")
		if option == "" || ignoredOption(key) {
			continue
		}
		name := strings.ReplaceAll(key, "_", "-")
		kind, known := words[name]
		switch {
		case !known && sloppy:
			continue
		case !known || kind == optionFlag || name == "help" || name == "h":
			wrong := &usageError{message: "-o " + key + " is no option of a batchfs mount"}
			if near := words.nearest(name); near != "" {
				wrong.hint = "did you mean: -o " + near
			} else if !hasValue && last != "" {
				wrong.hint = fmt.Sprintf(`a comma within a value is written with a backslash, as in -o '%s\,%s'`, last, key)
			}
			return nil, wrong
		case kind == valueFlag && !hasValue:
			return nil, usage("-o %s needs a value, as in -o %s=...", key, key)
		}
		spelled, err := words.spell(name, value, hasValue)
		if err != nil {
			return nil, err
		}
		flags = append(flags, spelled...)
		if last = ""; hasValue {
			last = strings.ReplaceAll(option, ",", `\,`)
		}
	}
	return flags, nil
}

// splitOptions splits at commas, except those after a backslash or inside double quotes:
// list=nhwc\,json and list="nhwc,json" both hold two forms.
func splitOptions(list string) []string {
	var options []string
	var option strings.Builder
	quoted := false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '\\' && i+1 < len(list):
			i++
			option.WriteByte(list[i])
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			options = append(options, option.String())
			option.Reset()
		default:
			option.WriteByte(c)
		}
	}
	return append(options, option.String())
}

// asMountHelper recognizes the ways mount(8) calls a file system's program:
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

// helperCall is a parsed call from mount(8).
type helperCall struct {
	arguments []string
	options   []string
	fake      bool
	sloppy    bool
}

func parseHelperCall(args []string) (helperCall, error) {
	var call helperCall
	for i := 0; i < len(args); i++ {
		word := args[i]
		if len(word) < 2 || word[0] != '-' {
			call.arguments = append(call.arguments, word)
			continue
		}
		for j := 1; j < len(word); j++ {
			switch letter := word[j]; letter {
			case 'f':
				call.fake = true
			case 's':
				call.sloppy = true
			case 'n', 'v', 'r', 'w':
			case 'o', 't', 'N':
				value := word[j+1:]
				if value == "" {
					if i++; i == len(args) {
						return call, usage("-%c needs a value", letter)
					}
					value = args[i]
				}
				if letter == 'o' {
					call.options = append(call.options, value)
				}
				j = len(word)
			default:
				return call, usage("mount.batchfs knows no -%c", letter)
			}
		}
	}
	if len(call.arguments) != 2 {
		return call, usage("mount.batchfs takes a dataset and a mountpoint, but got %s", count(len(call.arguments), "argument"))
	}
	return call, nil
}

// mountLine returns the mount command line for a helper call.
func (call helperCall) mountLine(words vocabulary) (commandLine, error) {
	line := commandLine{command: "mount", flags: []string{"--daemon"}, arguments: call.arguments}
	for _, list := range call.options {
		flags, err := expandOptions(words, list, call.sloppy)
		if err != nil {
			return line, withHelp(err, "mount")
		}
		line.flags = append(line.flags, flags...)
	}
	return line, nil
}

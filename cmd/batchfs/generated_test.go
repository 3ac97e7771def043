package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/commands.md and the man pages anew")

// commandsFile and manDir are generated from the command tree.
var (
	commandsFile = filepath.Join("..", "..", "docs", "commands.md")
	manDir       = filepath.Join("..", "..", "packaging", "man")
)

// TestGeneratedDocuments: docs/commands.md and the man pages say what the commands say, and there is
// nothing else among the man pages.
func TestGeneratedDocuments(t *testing.T) {
	root := newRoot(&console{})
	pages := map[string][]byte{commandsFile: reference(root)}
	for _, cmd := range append(root.Commands(), root) {
		if !cmd.Hidden {
			pages[filepath.Join(manDir, manName(cmd)+".1")] = manPage(cmd)
		}
	}
	for path, want := range pages {
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is stale (%v): go test ./cmd/batchfs -run %s -update", path, err, t.Name())
		}
	}
	there, err := filepath.Glob(filepath.Join(manDir, "*"))
	if err != nil || len(there) != len(pages)-1 {
		t.Errorf("%d man pages for %d commands: %v", len(there), len(pages)-1, err)
	}
}

// TestManPages: groff has nothing to complain about.
func TestManPages(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	root := newRoot(&console{})
	for _, cmd := range append(root.Commands(), root) {
		check := exec.Command(groff, "-man", "-ww", "-z", "-Tutf8")
		check.Stdin = bytes.NewReader(manPage(cmd))
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", cmd.Name(), err, out)
		}
	}
}

// reference is docs/commands.md.
func reference(root *cobra.Command) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Commands\n\nWhat `batchfs COMMAND --help-all` says; made by `go test ./cmd/batchfs -run TestGeneratedDocuments -update`.\n\n%s\n\n", root.Long)
	for _, cmd := range root.Commands() {
		if !cmd.Hidden {
			fmt.Fprintf(&out, "- [%s](#%s): %s\n", cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-"), cmd.Short)
		}
	}
	for _, cmd := range root.Commands() {
		if cmd.Hidden {
			continue
		}
		fmt.Fprintf(&out, "\n## %s\n\n`%s`: %s\n", cmd.CommandPath(), cmd.UseLine(), cmd.Short)
		if cmd.Long != "" {
			fmt.Fprintf(&out, "\n%s\n", cmd.Long)
		}
		fmt.Fprintf(&out, "\n```\n%s\n```\n", unindented(cmd.Example))
		eachGroup(cmd, func(heading string, flags []*pflag.Flag) {
			fmt.Fprintf(&out, "\n| %s | |\n|---|---|\n", heading)
			for _, f := range flags {
				name, usage := described(f)
				fmt.Fprintf(&out, "| `%s` | %s |\n", strings.ReplaceAll(name, "|", `\|`), strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(usage))
			}
		})
	}
	return out.Bytes()
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is a command's page in section 1.
func manPage(cmd *cobra.Command) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, ".TH %s 1\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n%s\n", strings.ToUpper(manName(cmd)), roff(manName(cmd)), roff(cmd.Short), roff(cmd.UseLine()))
	out.WriteString(".SH DESCRIPTION\n" + strings.ReplaceAll(roff(cmd.Long), "\n\n", "\n.PP\n") + "\n")
	if cmd.HasSubCommands() {
		out.WriteString(".SH COMMANDS\n")
		for _, sub := range cmd.Commands() {
			if !sub.Hidden {
				fmt.Fprintf(&out, ".TP\n.BR %s (1)\n%s\n", manName(sub), roff(sub.Short))
			}
		}
		out.WriteString(".SH EXIT STATUS\n0: done. 1: failed. 2: wrong usage.\n")
	}
	fmt.Fprintf(&out, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(unindented(cmd.Example)))
	out.WriteString(".SH OPTIONS\n")
	eachGroup(cmd, func(heading string, flags []*pflag.Flag) {
		fmt.Fprintf(&out, ".SS %s\n", roff(heading))
		for _, f := range flags {
			name, usage := described(f)
			fmt.Fprintf(&out, ".TP\n.B %s\n%s\n", roff(name), roff(usage))
		}
	})
	if cmd.HasParent() {
		fmt.Fprintf(&out, ".SH SEE ALSO\n.BR %s (1)\n", manName(cmd.Parent()))
	}
	return out.Bytes()
}

// roff escapes text: backslashes, dashes, and points and quotes at the beginning of a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// eachGroup visits the flags of a command by heading.
func eachGroup(cmd *cobra.Command, visit func(heading string, flags []*pflag.Flag)) {
	groups, _ := flagGroups(cmd, true)
	for _, heading := range headings {
		if groups[heading] == nil {
			continue
		}
		var flags []*pflag.Flag
		groups[heading].VisitAll(func(f *pflag.Flag) { flags = append(flags, f) })
		visit(heading, flags)
	}
}

// described is a flag with the word for its value, and what it means with its default.
func described(f *pflag.Flag) (name, usage string) {
	name, usage = "--"+f.Name, f.Usage
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if f.Value.Type() != "bool" {
		name += " " + f.Value.Type()
	} else if f.DefValue == "true" {
		name += "=false"
	}
	if f.DefValue != "" && f.DefValue != "false" && !strings.Contains(usage, "(default") {
		usage += " (default " + f.DefValue + ")"
	}
	return name, usage
}

// unindented removes the indentation of examples.
func unindented(text string) string {
	return strings.TrimSpace(strings.ReplaceAll("\n"+text, "\n  ", "\n"))
}

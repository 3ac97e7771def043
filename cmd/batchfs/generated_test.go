package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/batchfs/batchfs/internal/testkit"
)

var update = flag.Bool("update", false, "write docs/commands.md and the man pages anew")

// commandsFile and manDir are generated from the commands.
var (
	commandsFile = filepath.Join("..", "..", "docs", "commands.md")
	manDir       = filepath.Join("..", "..", "packaging", "man")
)

// TestGeneratedDocuments: docs/commands.md and the man pages match the commands, and there are no
// other man pages.
func TestGeneratedDocuments(t *testing.T) {
	reference := "# Commands\n\nWhat `batchfs COMMAND --help-all` says; made by `go test ./cmd/batchfs -run TestGeneratedDocuments -update`.\n"
	pages := map[string]string{}
	for _, app := range documents() {
		text, err := app.ToMarkdown()
		testkit.Must(t, err)
		reference += "\n" + text
		pages[filepath.Join(manDir, app.Name+".1")] = manPage(t, app)
	}
	pages[commandsFile] = reference
	for path, want := range pages {
		if *update {
			testkit.Must(t, os.WriteFile(path, []byte(want), 0o644))
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is stale (%v): go test ./cmd/batchfs -run %s -update", path, err, t.Name())
		}
	}
	there, err := filepath.Glob(filepath.Join(manDir, "*"))
	if err != nil || len(there) != len(pages)-1 {
		t.Errorf("%d man pages for %d commands: %v", len(there), len(pages)-1, err)
	}
}

// TestManPages: groff does not complain about any page.
func TestManPages(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	for _, app := range documents() {
		check := exec.Command(groff, "-man", "-ww", "-z", "-Tutf8")
		check.Stdin = strings.NewReader(manPage(t, app))
		if out, err := check.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
			t.Errorf("%s: %v: %s", app.Name, err, out)
		}
	}
}

func manPage(t *testing.T, app *cli.App) string {
	t.Helper()
	page, err := app.ToManWithSection(1)
	testkit.Must(t, err)
	return page
}

// documents returns batchfs and its commands, each as an app of its own. Package cli makes a page
// of each by the template below.
func documents() []*cli.App {
	root := newApp(&console{}, true)
	apps := []*cli.App{root}
	for _, cmd := range root.VisibleCommands() {
		app := &cli.App{Name: "batchfs-" + cmd.Name, HelpName: cmd.HelpName, Usage: cmd.Usage, ArgsUsage: cmd.ArgsUsage, Description: cmd.Description,
			Flags: cmd.Flags, HideHelp: true, HideVersion: true}
		app.Setup()
		apps = append(apps, app)
	}
	return apps
}

func init() {
	cli.MarkdownDocTemplate = `{{$man := .SectionNum}}{{with .App -}}
{{if $man}}% {{.Name}} {{$man}}

# NAME

{{.Name}} - {{.Usage}}

# SYNOPSIS

{{else}}## {{.HelpName}}

{{end}}` + "`{{.HelpName}}{{if .VisibleCommands}} COMMAND{{else}} [flags]{{end}}{{with .ArgsUsage}} {{.}}{{end}}`" + `{{if not $man}}: {{.Usage}}{{end}}

{{if $man}}# DESCRIPTION

{{end}}{{.Description}}
{{if .VisibleCommands}}
{{if $man}}# COMMANDS
{{end}}{{range .VisibleCommands}}
- {{if $man}}**batchfs-{{.Name}}(1)**{{else}}[{{.HelpName}}](#batchfs-{{.Name}}){{end}}: {{.Usage}}{{end}}
{{end}}
{{range .VisibleFlagCategories}}
{{if $man}}# {{else}}### {{end}}{{or .Name "Flags"}}
{{template "flags" .Flags}}{{else}}
{{if $man}}# {{else}}### {{end}}Flags
{{template "flags" .VisibleFlags}}{{end}}
{{- if $man}}
# EXIT STATUS

0: done. 1: failed. 2: wrong usage.

# SEE ALSO

**{{if .VisibleCommands}}batchfs-mount{{else}}batchfs{{end}}(1)**
{{end}}{{end}}{{define "flags"}}{{range .}}
- **{{range $i, $name := .Names}}{{if $i}}, {{end}}{{if eq (len $name) 1}}-{{else}}--{{end}}{{$name}}{{end}}**: {{.GetUsage}}
{{- if .TakesValue}}{{with .GetDefaultText}} (default: {{.}}){{end}}{{end}}{{end}}
{{end}}`
}

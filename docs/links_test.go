package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notSlug = regexp.MustCompile("[^a-z0-9 _-]")
	flagged = regexp.MustCompile("[` (](--[a-z][a-z-]+)")
	member  = regexp.MustCompile(`[ (=` + "`" + `]batchfs\.([A-Za-z_]+)`)
)

// pages are the documents for users.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../packaging/*.md"} {
		names, err := filepath.Glob(pattern)
		testkit.Must(t, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			testkit.Must(t, err)
			texts[name] = string(text)
		}
	}
	return texts
}

// TestLinks: what a document links to is there, and so are headings.
func TestLinks(t *testing.T) {
	texts := pages(t)
	for name, text := range texts {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			path, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link %s: %v", name, m[1], err)
			} else if anchor != "" && !anchors(texts[target])[anchor] {
				t.Errorf("%s: link %s: there is no such heading", name, m[1])
			}
		}
	}
}

// anchors are the names that headings of a document have in links.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		names[strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return names
}

// TestFlagsAndNamesExist: pages for users speak of flags that a command has, and of names that the
// Python package has.
func TestFlagsAndNamesExist(t *testing.T) {
	texts := pages(t)
	module, err := os.ReadFile("../python/batchfs/__init__.py")
	testkit.Must(t, err)
	// Of every command, docker, systemctl and an example.
	others := map[string]bool{"--help-all": true, "--device": true, "--pid": true, "--cap-add": true, "--security-opt": true, "--now": true, "--grain": true}
	commands := strings.FieldsFunc(texts["../docs/commands.md"], func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz-", r) })
	for _, name := range []string{"README.md", "packaging/README.md", "docs/getting-started.md", "docs/coming-from.md", "docs/datasets.md", "docs/files.md", "docs/gpu.md", "docs/mounting.md", "docs/performance.md", "docs/semantics.md"} {
		text := texts["../"+name]
		if text == "" {
			t.Errorf("there is no %s", name)
		}
		for _, m := range flagged.FindAllStringSubmatch(text, -1) {
			if !others[m[1]] && !slices.Contains(commands, m[1]) {
				t.Errorf("%s: no command has %s", name, m[1])
			}
		}
		for _, m := range member.FindAllStringSubmatch(text, -1) {
			if !regexp.MustCompile(`(?m)^(class|def) ` + m[1] + `\b`).Match(module) {
				t.Errorf("%s: the package has no batchfs.%s", name, m[1])
			}
		}
	}
}

package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hasModules exits with status 0 if Python finds all modules. Importing them would take
// seconds.
const hasModules = `
import importlib.util, sys
sys.exit(not all(importlib.util.find_spec(name) for name in sys.argv[1:]))
`

// Python returns the path of a Python that has the modules, or skips the test: preferably the
// system's, which every user may run, else one that scripts/deps.sh installs.
func Python(t testing.TB, modules ...string) string {
	t.Helper()
	bin := filepath.Join(root(t), "bin")
	for _, name := range []string{"/usr/bin/python3", "python3", filepath.Join(bin, "python/bin/python3"), filepath.Join(bin, "frameworks/bin/python3")} {
		path, err := exec.LookPath(name)
		if err == nil && exec.Command(path, append([]string{"-c", hasModules}, modules...)...).Run() == nil {
			return path
		}
	}
	t.Skip("SKIPPED: no python3 here has these modules, of which scripts/deps.sh installs what it can: ", strings.Join(modules, ", "))
	return ""
}

// root is the directory of the module. Tests run in their package's directory.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, err = os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir, err = parent, nil
		}
	}
	t.Fatal(err)
	return ""
}

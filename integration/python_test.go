package integration

import (
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

// needPython finds a Python that has the modules, or skips the test. `make test` installs
// one in bin/python with the modules that the distribution lacks.
func needPython(t testing.TB, modules ...string) string {
	t.Helper()
	beside, err := filepath.Abs("../bin/python/bin/python3")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/usr/bin/python3", "python3", beside} {
		path, err := exec.LookPath(name)
		if err == nil && exec.Command(path, append([]string{"-c", hasModules}, modules...)...).Run() == nil {
			return path
		}
	}
	t.Skipf("SKIPPED: no python3 here has %s", strings.Join(modules, ", "))
	return ""
}

package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// needPython finds a Python that has the modules, or skips the test. `make test` installs
// one in bin/python with the modules that the distribution lacks.
func needPython(t testing.TB, modules ...string) string {
	t.Helper()
	beside, err := filepath.Abs("../bin/python/bin/python3")
	if err != nil {
		t.Fatal(err)
	}
	imports := strings.Join(append([]string{"sys"}, modules...), ", ")
	for _, name := range []string{"/usr/bin/python3", "python3", beside} {
		path, err := exec.LookPath(name)
		if err == nil && exec.Command(path, "-c", "import "+imports).Run() == nil {
			return path
		}
	}
	t.Skipf("SKIPPED: no python3 here can import %s", imports)
	return ""
}

//go:build linux && cgo && (amd64 || arm64)

package machine

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/batchfs/batchfs/internal/dynlib"
	"github.com/batchfs/batchfs/internal/testkit"
)

func init() {
	callMissing = func() int {
		_, ret := nvml.New().SystemGetDriverVersion()
		return int(ret)
	}
}

// driverSource is a stand-in for the driver's library, as old as OLD and failing as FAILING
// says.
const driverSource = `
#include <string.h>
static int open_count;
#ifdef FAILING
int nvmlInit_v2(void) { return FAILING; }
#else
int nvmlInit_v2(void) { open_count++; return 0; }
int nvmlShutdown(void) { open_count--; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d)
{
	*d = &open_count;
	return i == 0 && open_count == 1 ? 0 : 2;
}
int nvmlDeviceGetCpuAffinity(void *d, unsigned n, unsigned long *set) { memset(set, 0, n * sizeof *set); set[0] = 8; return 0; }
#ifndef OLD
int nvmlDeviceGetCpuAffinityWithinScope(void *d, unsigned n, unsigned long *set, unsigned scope)
{
	memset(set, 0, n * sizeof *set);
	set[0] = scope == 1 ? 6 : 0;
	return 0;
}
#endif
#endif
`

// buildDriver compiles driverSource and returns the variable that makes the linker find it.
func buildDriver(t *testing.T, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	arguments := append(flags, "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", filepath.Join(dir, "libnvidia-ml.so.1"))
	cmd := exec.Command("cc", arguments...)
	cmd.Stdin = strings.NewReader(driverSource)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return "LD_LIBRARY_PATH=" + dir
}

// Real libraries, found by the real dynamic linker: none of them ends the process, and a second
// question gets the same answer as the first.
func TestDrivers(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler")
	}
	for _, c := range []struct {
		name  string
		gpu   string
		flags []string
		cpus  string
	}{
		{"complete", "", nil, "1-2"},
		{"old", "0", []string{"-DOLD"}, "3"},
		{"no such device", "1", nil, ""},
		{"no such function", "GPU-1", nil, ""},
		{"not loaded", "", []string{"-DFAILING=9"}, ""},
		{"no function but Init", "", []string{"-DFAILING=0"}, ""},
		{"no function but Init, by UUID", "GPU-1", []string{"-DFAILING=0"}, ""},
		{"unknown failure", "", []string{"-DFAILING=999"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			variable := buildDriver(t, c.flags...)
			for _, binding := range []string{"LD_BIND_NOW=", "LD_BIND_NOW=1"} {
				r := runChild(t, c.gpu, variable, binding)
				if r.Missing != int(nvml.ERROR_FUNCTION_NOT_FOUND) {
					t.Errorf("a function that is not there answers %d", r.Missing)
				}
				for _, s := range r.Recommended {
					if s.String() != c.cpus || !slices.Equal(r.Processors.Near, s.and(r.Processors.Allowed)) {
						t.Errorf("%s of %+v", s, r.Processors)
					}
				}
			}
		})
	}
}

// Without a driver the process survives, even if everything is bound at its start.
func TestNoDriver(t *testing.T) {
	if dynlib.OpenNVML() == nil {
		t.Skip("this machine has a driver")
	}
	r := runChild(t, "", "LD_BIND_NOW=1")
	if len(r.Processors.Near) > 0 || r.Missing != int(nvml.ERROR_FUNCTION_NOT_FOUND) {
		t.Errorf("%+v", r)
	}
}

// Every function that go-nvml calls is in internal/dynlib: none is left to the dynamic linker, and
// none of ours is visible to it. LD_BIND_NOW above tests the linker itself.
func TestNamesAreComplete(t *testing.T) {
	self, err := elf.Open("/proc/self/exe")
	testkit.Must(t, err)
	defer self.Close()
	symbols, err := self.DynamicSymbols()
	testkit.Must(t, err)
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "nvml") {
			t.Errorf("the dynamic linker sees %s", s.Name)
		}
	}
}

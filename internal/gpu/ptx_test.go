package gpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPTXIsCurrent: the committed PTX is what scripts/ptx.sh makes of the sources.
func TestPTXIsCurrent(t *testing.T) {
	readSources(t)
	const version = "19.1.7" // others may write other PTX
	if out, _ := exec.Command("clang-19", "--version").Output(); !strings.Contains(string(out), version) {
		t.Skipf("SKIPPED: there is no clang-19 of version %s; kernels.ptx was not compared with its sources", version)
	}
	file := filepath.Join(t.TempDir(), "kernels.ptx")
	if out, err := exec.Command("../../scripts/ptx.sh", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if made, err := os.ReadFile(file); err != nil || string(made) != PTX {
		t.Errorf("scripts/ptx.sh makes other PTX than the committed one (%v): run it", err)
	}
}

// TestPTXAssembles: NVIDIA's assembler accepts the PTX for every GPU that it knows, and keeps all
// values in registers.
func TestPTXAssembles(t *testing.T) {
	assemblers, _ := filepath.Glob("../../bin/cuda/nvidia/*/bin/ptxas")
	if len(assemblers) == 0 {
		t.Skip("SKIPPED: there is no ptxas in bin/cuda, which make deps installs where it can; the PTX was not assembled")
	}
	help, err := exec.Command(assemblers[0], "--help").CombinedOutput()
	known := regexp.MustCompile(`'(sm_\d+)'`).FindAllStringSubmatch(string(help), -1)
	if err != nil || len(known) == 0 {
		t.Fatalf("%v\n%s", err, help)
	}
	done := map[string]bool{"sm_50": true, "sm_52": true, "sm_53": true, "sm_60": true, "sm_61": true, "sm_62": true} // older than the PTX
	for _, m := range known {
		if arch := m[1]; !done[arch] {
			done[arch] = true
			t.Run(arch, func(t *testing.T) {
				t.Parallel()
				out, err := exec.Command(assemblers[0], "-v", "-arch="+arch, "kernels/kernels.ptx", "-o", os.DevNull).CombinedOutput()
				text := string(out)
				if err != nil || strings.Count(text, "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") != strings.Count(PTX, ".entry") {
					t.Errorf("%v\n%s", err, text)
				}
			})
		}
	}
}

package dynlib

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// nvidia has NVIDIA's own cuda.h, which make deps installs.
const nvidia = "../../bin/cuda/nvidia/cuda_runtime/include"

// TestHeaderIsCUDAs compares all that our cuda.h and cudanames.h say with NVIDIA's cuda.h: numbers, sizes and alignments of types, places in
// structures, types of functions, and the names that the library has for them.
func TestHeaderIsCUDAs(t *testing.T) {
	if _, err := os.Stat(filepath.Join(nvidia, "cuda.h")); err != nil {
		t.Skip("NVIDIA's cuda.h is not installed: make deps")
	}
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler")
	}
	header, err := os.ReadFile("cuda.h")
	if err != nil {
		t.Fatal(err)
	}
	all := facts(string(header))
	if len(all) < 250 {
		t.Fatalf("%d facts", len(all))
	}
	ours := run(t, ".", all, `CUresult f parameters;`, `#f #suffix`)
	theirs := run(t, nvidia, all, `CUresult f parameters; /* a declaration of another type is an error */`, `EXPAND(f)`)
	if !slices.Equal(ours, theirs) {
		for i := range min(len(ours), len(theirs)) {
			if ours[i] != theirs[i] {
				t.Errorf("%s, NVIDIA has %s", ours[i], theirs[i])
			}
		}
	}
}

var (
	number    = regexp.MustCompile(`\b(CU[A-Z0-9_]+) = \d+`)
	structure = regexp.MustCompile(`(?s)typedef struct \{\n([^}]*)\} (\w+);`)
	simple    = regexp.MustCompile(`(?m)(?:^typedef .*?|^\} )\(?\*?(\w+)\)?(?:\(void \*\))?;`)
	member    = regexp.MustCompile(`\**(\w+)(?:\[\d+\])?[,;]`)
)

// facts are expressions in C about everything in a header: numbers, and what types look like.
func facts(header string) (expressions []string) {
	for _, n := range number.FindAllStringSubmatch(header, -1) {
		expressions = append(expressions, n[1])
	}
	for _, n := range simple.FindAllStringSubmatch(header, -1) {
		expressions = append(expressions, "sizeof("+n[1]+")", "_Alignof("+n[1]+")")
	}
	for _, s := range structure.FindAllStringSubmatch(header, -1) {
		for _, m := range member.FindAllStringSubmatch(s[1], -1) {
			expressions = append(expressions, "offsetof("+s[2]+", "+m[1]+")")
		}
	}
	return expressions
}

// run compiles a program with a header, and returns what it says the facts are, and what the functions are called.
func run(t *testing.T, include string, facts []string, declaration, name string) []string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	code := "#include <cuda.h>\n#include <stddef.h>\n#include <stdio.h>\n#define X(f, suffix, parameters) " + declaration +
		"\n#include \"cudanames.h\"\n#undef X\n#define STRING(s) #s\n#define EXPAND(s) STRING(s)\nint main(void)\n{\n"
	for _, f := range facts {
		code += "printf(\"%s = %lld\\n\", \"" + f + "\", (long long)" + f + ");\n"
	}
	code += "#define X(f, suffix, parameters) puts(#f \" is \" " + name + ");\n#include \"cudanames.h\"\nreturn 0;\n}\n"
	cmd := exec.Command("cc", "-w", "-I"+include, "-iquote", ".", "-x", "c", "-", "-o", program)
	cmd.Stdin = strings.NewReader(code)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

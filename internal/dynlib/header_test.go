package dynlib

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

// nvidia has NVIDIA's own headers, which make deps installs.
const nvidia = "../../bin/cuda/nvidia"

// A header is one of ours, and what has NVIDIA's.
type header struct {
	name, names string
	packages    []string
	result      string // what all functions return
	facts       int    // there are more
}

// TestHeadersAreNVIDIAs compares everything in our headers and lists of names with NVIDIA's
// headers: numbers, sizes and alignments of types, offsets in structures, types of functions, and
// the libraries' names for them.
func TestHeadersAreNVIDIAs(t *testing.T) {
	for _, h := range []header{
		{"cuda.h", "cudanames.h", []string{"cuda_runtime"}, "CUresult", 250},
		{"nvjpeg.h", "nvjpegnames.h", []string{"nvjpeg", "cuda_runtime", "cuda_nvcc"}, "nvjpegStatus_t", 40},
	} {
		t.Run(h.name, h.compare)
	}
}

func (h header) compare(t *testing.T) {
	if _, err := os.Stat(filepath.Join(nvidia, h.packages[0], "include", h.name)); err != nil {
		t.Skipf("NVIDIA's %s is not installed: make deps", h.name)
	}
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler")
	}
	text, err := os.ReadFile(h.name)
	testkit.Must(t, err)
	all := facts(string(text))
	if len(all) < h.facts {
		t.Fatalf("%d facts", len(all))
	}
	var include []string
	for _, p := range h.packages {
		include = append(include, "-I"+filepath.Join(nvidia, p, "include"))
	}
	ours := h.run(t, []string{"-I."}, all, h.result+` f parameters;`, `#f #suffix`)
	theirs := h.run(t, include, all, h.result+` f parameters; /* a declaration of another type is an error */`, `EXPAND(f)`)
	if !slices.Equal(ours, theirs) {
		for i := range min(len(ours), len(theirs)) {
			if ours[i] != theirs[i] {
				t.Errorf("%s, NVIDIA has %s", ours[i], theirs[i])
			}
		}
	}
}

var (
	number    = regexp.MustCompile(`\b([A-Z][A-Z0-9_]+) = \d+`)
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

// run compiles a program with a header, and returns the values of the facts, and the names of the
// functions.
func (h header) run(t *testing.T, include, facts []string, declaration, name string) []string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	code := "#include <" + h.name + ">\n#include <stddef.h>\n#include <stdio.h>\n#define X(f, suffix, parameters) " + declaration +
		"\n#include \"" + h.names + "\"\n#undef X\n#define STRING(s) #s\n#define EXPAND(s) STRING(s)\nint main(void)\n{\n"
	for _, f := range facts {
		code += "printf(\"%s = %lld\\n\", \"" + f + "\", (long long)" + f + ");\n"
	}
	code += "#define X(f, suffix, parameters) puts(#f \" is \" " + name + ");\n#include \"" + h.names + "\"\nreturn 0;\n}\n"
	cmd := exec.Command("cc", append(include, "-w", "-iquote", ".", "-x", "c", "-", "-o", program)...)
	cmd.Stdin = strings.NewReader(code)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program).Output()
	testkit.Must(t, err)
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

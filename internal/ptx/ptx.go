package ptx

import (
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

//go:embed c/runtime.c
var runtime string

// types are the C types of PTX types.
var types = map[string]string{
	"pred": "uint8_t",
	"b8":   "uint8_t", "u8": "uint8_t", "s8": "int8_t",
	"b16": "uint16_t", "u16": "uint16_t", "s16": "int16_t",
	"b32": "uint32_t", "u32": "uint32_t", "s32": "int32_t",
	"b64": "uint64_t", "u64": "uint64_t", "s64": "int64_t",
}

// width is a type's number of bits, 0 for an unknown type.
func width(t string) int {
	if types[t] == "" || t == "pred" {
		return 0
	}
	n, _ := strconv.Atoi(t[1:])
	return n
}

func unsigned(bits int) string { return "u" + strconv.Itoa(bits) }

var (
	comments  = regexp.MustCompile(`//[^\n]*|(?s:/\*.*?\*/)`)
	directive = regexp.MustCompile(`^\s*\.(version|target|address_size)\b[^\n]*\n`)
	shared    = regexp.MustCompile(`^\s*\.extern\s+\.shared\s+\.align\s+\d+\s+\.b8\s+([\w$]+)\[\];`)
	table     = regexp.MustCompile(`^\s*(?:\.visible\s+)?\.(?:global|const)\s+\.align\s+\d+\s+\.(b8|[bu]16|[bu]32)\s+([\w$]+)\[(\d+)\]\s*=\s*\{([-\d\s,]*)\};`)
	entry     = regexp.MustCompile(`^\s*\.visible\s+\.entry\s+(\w+)\(([^)]*)\)\s*((?:\.\w+[^\n]*\n\s*)*)\{((?s:.*?))\n\}`)
	parameter = regexp.MustCompile(`^\.param\s+\.(\w+)\s+([\w$]+)$`)
	registers = regexp.MustCompile(`\.reg\s+\.(\w+)\s+(%[a-z]+)<(\d+)>;`)
	most      = regexp.MustCompile(`\.maxntid\s+(\d+)`)
	local     = regexp.MustCompile(`\.local\s+\.align\s+\d+\s+\.b8\s+([\w$]+)\[(\d+)\];`)
	pragma    = regexp.MustCompile(`\.pragma\s+"[^"]*";`)
	// How compilers take half of a register; the other half is unused.
	half  = regexp.MustCompile(`\{\s*\.reg\s+\.b32\s+tmp;\s*mov\.b64\s+\{\s*(tmp|%r\d+),\s*(tmp|%r\d+)\s*\},\s*(%rd\d+);\s*\}`)
	label = regexp.MustCompile(`^([\w$]+):\s*`)
)

// ToC returns the C code of a module; see the package comment. The error names what it does not
// know.
func ToC(ptx string) (string, error) {
	rest := comments.ReplaceAllString(ptx, "")
	rest = half.ReplaceAllString(rest, "mov.b64 {$1, $2}, $3;")
	out := &strings.Builder{}
	out.WriteString(runtime)
	symbols := map[string]string{}
	kernels, tables := 0, "{0}" // the first contains nothing
	for strings.TrimSpace(rest) != "" {
		var m []string
		take := func(form *regexp.Regexp) bool {
			if m = form.FindStringSubmatch(rest); m != nil {
				rest = rest[len(m[0]):]
			}
			return m != nil
		}
		switch {
		case take(directive):
		case take(shared):
			symbols[m[1]] = "0ull"
		case take(table):
			name := "ptx_table_" + identifier(m[2])
			fmt.Fprintf(out, "\nstatic const %s %s[%s] = {%s};\n", types[m[1]], name, m[3], m[4])
			symbols[m[2]] = "(uint64_t)(uintptr_t)" + name
			tables += fmt.Sprintf(", {%s, sizeof %s, 1}", symbols[m[2]], name)
		case take(entry):
			if err := translate(out, symbols, tables, m[1], m[2], m[3], m[4]); err != nil {
				return "", fmt.Errorf("ptx: kernel %s: %w", m[1], err)
			}
			kernels++
		default:
			line, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
			return "", fmt.Errorf("ptx: unknown directive: %s", line)
		}
	}
	if kernels == 0 {
		return "", fmt.Errorf("ptx: no kernel")
	}
	return out.String(), nil
}

// identifier returns a name that C allows.
func identifier(name string) string { return strings.NewReplacer("$", "_", "%", "").Replace(name) }

// translate writes one kernel: its registers, its code and the function that callers see.
func translate(out *strings.Builder, symbols map[string]string, tables, name, params, directives, body string) error {
	k := &kernel{symbols: symbols, params: map[string]int{}, registers: map[string]string{}}
	size := 0
	for p := range strings.SplitSeq(params, ",") {
		if p = strings.TrimSpace(p); p == "" {
			continue
		}
		m := parameter.FindStringSubmatch(p)
		if m == nil || width(m[1]) == 0 {
			return fmt.Errorf("unknown parameter: %s", p)
		}
		n := width(m[1]) / 8
		size = (size + n - 1) / n * n
		k.params[m[2]], size = size, size+n
	}
	fmt.Fprintf(out, "\ntypedef struct {\n    int at;\n")
	for _, m := range registers.FindAllStringSubmatch(body, -1) {
		n, _ := strconv.Atoi(m[3])
		if types[m[1]] == "" {
			return fmt.Errorf("registers of type %s", m[1])
		}
		for i := range n {
			k.registers[m[2]+strconv.Itoa(i)] = m[1]
			fmt.Fprintf(out, "    %s %s%d;\n", types[m[1]], m[2][1:], i)
		}
	}
	if local.MatchString(body) {
		return fmt.Errorf("local memory: %s", local.FindString(body))
	}
	fmt.Fprintf(out, "} ptx_registers_%s;\n\nstatic int ptx_code_%[1]s(const ptx_thread *t, void *registers)\n{\n"+
		"    ptx_registers_%[1]s *const r = registers;\n    switch (r->at) {\n    case 0:;\n", name)
	if err := k.code(pragma.ReplaceAllString(registers.ReplaceAllString(body, ""), "")); err != nil {
		return err
	}
	out.WriteString(k.out.String())
	threads := "1024"
	if m := most.FindStringSubmatch(directives); m != nil {
		threads = m[1]
	}
	fmt.Fprintf(out, "    }\n    return 0;\n}\n\nint ptx_%s(const unsigned grid[3], const unsigned block[3], size_t shared, const void *params, size_t size)\n{\n"+
		"    const ptx_range tables[] = {%[4]s};\n    if (block[0] > %[2]s)\n        return PTX_LAUNCH;\n"+
		"    return ptx_run(ptx_code_%[1]s, \"%[1]s\", (sizeof(ptx_registers_%[1]s) + 15) & ~(size_t)15, %[3]d, tables, sizeof tables / sizeof *tables, "+
		"grid, block, shared, params, size);\n}\n", name, threads, size, tables)
	return nil
}

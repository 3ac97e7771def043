package ptx

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// kernel is a kernel whose code is being translated.
type kernel struct {
	symbols   map[string]string // C expressions of addresses
	params    map[string]int    // offsets
	registers map[string]string // types
	barriers  int
	out       strings.Builder

	guard string   // "if (...) " before the current instruction
	parts []string // of the instruction's name: ld, global, u32
	args  []string
	err   error
}

var (
	guarded  = regexp.MustCompile(`^@(!?)(%p\d+)\s+(?s:(.*))$`)
	opcode   = regexp.MustCompile(`^([a-z0-9_.]+)\s*(?s:(.*))$`)
	constant = regexp.MustCompile(`^-?(\d+|0x[0-9a-fA-F]+)$`)
)

var special = map[string]string{
	"%tid.x": "t->tid", "%ntid.x": "t->ntid", "%ctaid.x": "t->ctaid[0]", "%ctaid.y": "t->ctaid[1]", "%ctaid.z": "t->ctaid[2]",
	"%nctaid.x": "t->nctaid[0]", "%nctaid.y": "t->nctaid[1]", "%nctaid.z": "t->nctaid[2]",
}

// code translates a kernel's statements.
func (k *kernel) code(body string) error {
	for statement := range strings.SplitSeq(body, ";") {
		statement = strings.TrimSpace(statement)
		for m := label.FindStringSubmatch(statement); m != nil; m = label.FindStringSubmatch(statement) {
			fmt.Fprintf(&k.out, "%s:;\n", identifier(m[1]))
			statement = statement[len(m[0]):]
		}
		if statement == "" {
			continue
		}
		k.guard = ""
		name := statement
		if m := guarded.FindStringSubmatch(statement); m != nil {
			k.guard, name = fmt.Sprintf("if (%s%s) ", m[1], k.register(m[2])), m[3]
		}
		if m := opcode.FindStringSubmatch(name); m != nil {
			k.parts, k.args = strings.Split(m[1], "."), operands(m[2])
			if !k.control() && !k.memory() && !k.arithmetic() {
				k.fail("unknown instruction")
			}
		} else {
			k.fail("no instruction")
		}
		if k.err != nil {
			return fmt.Errorf("%w: %s", k.err, statement)
		}
	}
	return nil
}

// operands splits at commas outside of braces.
func operands(s string) (all []string) {
	depth, from := 0, 0
	for i, c := range s + "," {
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == ',' && depth == 0:
			if a := strings.TrimSpace(s[from:i]); a != "" {
				all = append(all, a)
			}
			from = i + 1
		}
	}
	return all
}

func (k *kernel) fail(text string, args ...any) {
	if k.err == nil {
		k.err = fmt.Errorf(text, args...)
	}
}

func (k *kernel) emit(format string, args ...any) {
	fmt.Fprintf(&k.out, "    "+k.guard+format+"\n", args...)
}

// set assigns an expression to the first operand.
func (k *kernel) set(format string, args ...any) {
	k.emit("%s = %s;", k.register(k.args[0]), fmt.Sprintf(format, args...))
}

func (k *kernel) register(name string) string {
	if k.registers[name] == "" {
		k.fail("unknown register %s", name)
	}
	return "r->" + identifier(name)
}

// value returns an operand as an expression of a PTX type.
func (k *kernel) value(operand, ptxType string) string {
	c := types[ptxType]
	switch {
	case c == "":
		k.fail("unknown type %s", ptxType)
	case special[operand] != "":
		return fmt.Sprintf("(%s)%s", c, special[operand])
	case strings.HasPrefix(operand, "%"):
		return fmt.Sprintf("(%s)%s", c, k.register(operand))
	case constant.MatchString(operand):
		return fmt.Sprintf("(%s)%s", c, strings.TrimPrefix(operand, "+")+"ll")
	case k.symbols[operand] != "":
		return fmt.Sprintf("(%s)%s", c, k.symbols[operand])
	default:
		k.fail("unknown operand %s", operand)
	}
	return ""
}

// control translates instructions that compute nothing.
func (k *kernel) control() bool {
	switch strings.Join(k.parts, ".") {
	case "ret", "exit":
		k.emit("return 0;")
	case "bra", "bra.uni":
		if len(k.args) != 1 {
			return false
		}
		k.emit("goto %s;", identifier(k.args[0]))
	case "bar.sync", "barrier.sync", "barrier.sync.aligned":
		if k.guard != "" || len(k.args) != 1 || k.args[0] != "0" {
			k.fail("only the barrier 0 of all threads is known")
		}
		k.barriers++
		k.emit("r->at = %d;", k.barriers)
		k.emit("return %d;", k.barriers)
		fmt.Fprintf(&k.out, "    case %d:;\n", k.barriers)
	default:
		return false
	}
	return true
}

// memory translates loads and stores, of one value or a vector of them.
func (k *kernel) memory() bool {
	what := k.parts[0]
	if what != "ld" && what != "st" || len(k.args) != 2 {
		return false
	}
	values, place := k.args[0], k.args[1]
	if what == "st" {
		values, place = place, values
	}
	spaces, t := k.parts[1:len(k.parts)-1], k.parts[len(k.parts)-1]
	size := width(t) / 8
	space, how := "generic", "PTX_LOAD"
	if what == "st" {
		how = "PTX_STORE"
	}
	for _, s := range spaces {
		switch s {
		case "param", "global", "shared", "const":
			space = s
		case "volatile", "v2", "v4", "nc":
		default:
			k.fail("unknown kind of access %s", s)
		}
	}
	base, offset, _ := strings.Cut(strings.Trim(place, "[] "), "+")
	from, err := strconv.Atoi("0" + strings.TrimSpace(offset))
	if strings.HasPrefix(offset, "-") {
		from, err = strconv.Atoi(offset)
	}
	if err != nil || size == 0 {
		k.fail("unknown address or type")
		return true
	}
	for i, v := range operands(strings.Trim(values, "{}")) {
		at := k.place(space, strings.TrimSpace(base), from+i*size, t, how)
		if what == "st" {
			k.emit("%s = %s;", at, k.value(v, t))
		} else {
			// A register may be wider than the type: signed types are extended with their sign.
			k.emit("%s = (%s)%s;", k.register(v), types[t[:1]+strings.TrimLeft(k.registers[v], "bus")], at)
		}
	}
	return true
}

// place is an lvalue: memory that an instruction may use in this way.
func (k *kernel) place(space, base string, offset int, t, how string) string {
	check := "ptx_global"
	switch space {
	case "param":
		at, ok := k.params[base]
		if !ok {
			k.fail("unknown parameter %s", base)
		}
		return fmt.Sprintf("*(const %s *)(t->params + %d)", types[t], at+offset)
	case "shared":
		check = "ptx_shared"
	}
	code := strings.Join(k.parts, ".") + " " + strings.Join(k.args, ", ")
	return fmt.Sprintf("*(%s *)%s(t, %s + (%d), %d, %s, %q)", types[t], check, k.value(base, "u64"), offset, width(t)/8, how, code)
}

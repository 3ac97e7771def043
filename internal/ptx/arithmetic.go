package ptx

import (
	"fmt"
	"strings"
)

var (
	operators   = map[string]string{"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
	comparisons = map[string]string{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
	logic       = map[string]string{"and": "&", "or": "|", "xor": "^"}
)

// arithmetic translates instructions that compute one register from others.
func (k *kernel) arithmetic() bool {
	what, t := k.parts[0], k.parts[len(k.parts)-1]
	bits := width(t)
	if bits == 0 && t != "pred" || len(k.args) < 2 {
		return false
	}
	wide := t // the type without its sign
	if bits > 0 {
		wide = unsigned(bits)
	}
	a := func(i int, as string) string {
		if i >= len(k.args) {
			k.fail("too few operands")
			return ""
		}
		return k.value(k.args[i], as)
	}
	switch what {
	case "mov", "cvta":
		k.move(t)
	case "add", "sub", "and", "or", "xor":
		if len(k.parts) != 2 {
			return false // with a carry, or saturation
		}
		k.set("(%s)(%s %s %s)", types[wide], a(1, wide), operators[what], a(2, wide))
	case "not":
		if t == "pred" {
			k.set("!%s", a(1, t))
		} else {
			k.set("(%s)~%s", types[wide], a(1, wide))
		}
	case "neg":
		k.set("(%s)(0 - %s)", types[wide], a(1, wide))
	case "abs":
		k.set("%s < 0 ? (%s)(0 - %s) : %[3]s", a(1, t), types[wide], a(1, wide))
	case "min":
		k.set("%s < %s ? %[1]s : %[2]s", a(1, t), a(2, t))
	case "max":
		k.set("%s > %s ? %[1]s : %[2]s", a(1, t), a(2, t))
	case "div":
		k.set("%s / %s", a(1, t), a(2, t))
	case "rem":
		k.set("%s %% %s", a(1, t), a(2, t))
	case "mul", "mad":
		return k.multiply(t, a)
	case "shl":
		k.set("%s > %d ? 0 : (%s)(%s << (%[1]s & 63))", a(2, "u32"), bits-1, types[wide], a(1, wide))
	case "shr":
		k.shiftRight(t, a(1, strings.Replace(t, "b", "u", 1)), a(2, "u32"))
	case "selp":
		k.set("%s ? %s : %s", a(3, "pred"), a(1, t), a(2, t))
	case "setp":
		return k.compare(t, a)
	case "cvt":
		return k.convert(t, a)
	default:
		return k.bits(t, a)
	}
	return true
}

// move copies, and splits or joins registers: {%rs1, %rs2} are the lower and upper half of one.
func (k *kernel) move(t string) {
	half := strings.HasPrefix(k.args[1], "{")
	switch {
	case half:
		parts := operands(strings.Trim(k.args[1], "{}"))
		n := width(t) / len(parts)
		var joined []string
		for i, p := range parts {
			joined = append(joined, fmt.Sprintf("(%s)%s << %d", types[t], k.value(p, unsigned(n)), i*n))
		}
		k.set("%s", strings.Join(joined, " | "))
	case strings.HasPrefix(k.args[0], "{"):
		parts := operands(strings.Trim(k.args[0], "{}"))
		n := width(t) / len(parts)
		for i, p := range parts {
			if p != "tmp" {
				k.emit("%s = (%s)(%s >> %d);", k.register(p), types[unsigned(n)], k.value(k.args[1], t), i*n)
			}
		}
	default:
		k.set("%s", k.value(k.args[1], t))
	}
}

// shiftRight: shifting by the width or more leaves only signs.
func (k *kernel) shiftRight(t, v, by string) {
	most := width(t) - 1
	if t[0] == 's' {
		k.set("%s >> (%s > %d ? %[3]d : %[2]s)", v, by, most)
	} else {
		k.set("%s > %d ? 0 : %s >> (%[1]s & 63)", by, most, v)
	}
}

func (k *kernel) multiply(t string, a func(int, string) string) bool {
	n, result := width(t), width(t)
	var product string
	switch k.parts[1] {
	case "lo":
		// In 64 bits, since C would multiply 16-bit numbers as signed ones.
		product = fmt.Sprintf("(uint64_t)%s * %s", a(1, unsigned(n)), a(2, unsigned(n)))
	case "wide":
		result = 2 * n
		long := t[:1] + fmt.Sprint(result)
		product = fmt.Sprintf("(%s)%s * %s", types[long], a(1, t), a(2, t))
	case "hi":
		long := "unsigned __int128"
		if t[0] == 's' {
			long = "__int128"
		}
		product = fmt.Sprintf("((%s)%s * %s) >> %d", long, a(1, t), a(2, t), n)
	default:
		return false
	}
	if k.parts[0] == "mad" {
		product = fmt.Sprintf("(%s) + %s", product, a(3, unsigned(result)))
	}
	k.set("(%s)(%s)", types[unsigned(result)], product)
	return true
}

func (k *kernel) compare(t string, a func(int, string) string) bool {
	operator := comparisons[k.parts[1]]
	if operator == "" {
		return false
	}
	switch len(k.parts) {
	case 3:
		k.set("%s %s %s", a(1, t), operator, a(2, t))
	case 4:
		if logic[k.parts[2]] == "" {
			return false
		}
		k.set("(%s %s %s) %s %s", a(1, t), operator, a(2, t), logic[k.parts[2]], a(3, "pred"))
	default:
		return false
	}
	return true
}

// convert changes widths. A register may be wider than its new type; the value is then extended.
func (k *kernel) convert(from string, a func(int, string) string) bool {
	if len(k.parts) != 3 {
		return false // rounds or saturates
	}
	to := k.parts[1]
	stored := to[:1] + strings.TrimLeft(k.registers[k.args[0]], "bus")
	if types[stored] == "" || types[to] == "" {
		return false
	}
	k.set("(%s)(%s)%s", types[stored], types[to], a(1, from))
	return true
}

// bits translates operations on fields of bits.
func (k *kernel) bits(t string, a func(int, string) string) bool {
	switch what := k.parts[0]; what {
	case "bfe":
		signed := 0
		if t[0] == 's' {
			signed = 1
		}
		k.set("(%s)ptx_bfe(%s, %s, %s, %d, %d)", types[t], a(1, unsigned(width(t))), a(2, "u32"), a(3, "u32"), width(t), signed)
	case "bfi":
		k.set("(%s)ptx_bfi(%s, %s, %s, %s, %d)", types[t], a(1, t), a(2, t), a(3, "u32"), a(4, "u32"), width(t))
	case "prmt":
		if len(k.parts) != 2 {
			return false
		}
		k.set("ptx_prmt(%s, %s, %s)", a(1, "u32"), a(2, "u32"), a(3, "u32"))
	case "shf":
		if len(k.parts) != 4 || k.parts[1] != "l" && k.parts[1] != "r" {
			return false
		}
		n := a(3, "u32")
		switch k.parts[2] {
		case "wrap":
			n += " & 31"
		case "clamp":
			n = fmt.Sprintf("%s > 32 ? 32 : %[1]s", n)
		default:
			return false
		}
		k.set("ptx_shf_%s(%s, %s, %s)", k.parts[1], a(1, "u32"), a(2, "u32"), n)
	default:
		return false
	}
	return true
}

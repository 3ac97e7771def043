package ptx

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/internal/testkit"
)

const head = ".version 6.0\n.target sm_70\n.address_size 64\n.extern .shared .align 4 .b8 memory[];\n"

func kernelOf(body string) string {
	return head + ".visible .entry k(\n\t.param .u64 k_param_0\n)\n.maxntid 128, 1, 1\n{\n" +
		"\t.reg .pred %p<9>;\n\t.reg .b16 %rs<9>;\n\t.reg .b32 %r<19>;\n\t.reg .b64 %rd<19>;\n" + body + "\n}\n"
}

func TestUnknown(t *testing.T) {
	for _, body := range []string{
		"add.sat.s32 %r1, %r2, %r3;", "add.f32 %r1, %r2, %r3;", "bar.sync 1;", "@%p1 bar.sync 0;", "add.s32 %r1, %r2, %r77;", "mov.u32 %r1, %clock;",
		"call foo;", "ld.local.u32 %r1, [%rd1];", "atom.add.u32 %r1, [%rd1], 1;", "ld.param.u64 %rd1, [k_param_1];", "cvt.rni.s32.f32 %r1, %r2;",
		"setp.ltu.s32 %p1, %r1, %r2;", "prmt.b32.f4e %r1, %r2, %r3, 0;", "mul.s24.s32 %r1, %r2, %r3;", "nonsense", "bar.sync;", "mov.u32 %r1;",
	} {
		if c, err := ToC(kernelOf(body + "\nret;")); err == nil {
			t.Errorf("%s became C of %d bytes", body, len(c))
		}
	}
	for _, module := range []string{"", head, head + ".func f() { ret; }", head + ".shared .b8 x[4];", "add.s32 %r1, %r2, %r3;"} {
		if _, err := ToC(module); err == nil {
			t.Errorf("%q was accepted", module)
		}
	}
}

// results has, for instructions, what they leave in r1 (or rd1, in its lower half) when r2 is
// 0xfffffff6, r3 is 0x87654321, rd2 is 0xffffffff00000003 and rs2 is 0xfff6.
var results = map[string]uint32{
	"add.s32 %r1, %r2, 12;":                               2,
	"sub.s32 %r1, 3, %r2;":                                13,
	"mul.lo.s32 %r1, %r2, 3;":                             0xffffffe2,
	"mul.hi.u32 %r1, %r2, %r3;":                           0x8765431b,
	"mul.hi.s32 %r1, %r2, %r3;":                           4,
	"mul.wide.s32 %rd1, %r2, %r2;":                        100,
	"mul.wide.s16 %r1, %rs2, %rs2;":                       100,
	"mad.lo.s32 %r1, %r2, %r2, 5;":                        105,
	"div.s32 %r1, %r2, 3;":                                0xfffffffd,
	"rem.u32 %r1, %r3, 16;":                               1,
	"min.s32 %r1, %r2, 1;":                                0xfffffff6,
	"max.u32 %r1, %r2, 1;":                                0xfffffff6,
	"abs.s32 %r1, %r2;":                                   10,
	"neg.s32 %r1, %r2;":                                   10,
	"not.b32 %r1, %r2;":                                   9,
	"shl.b32 %r1, %r3, 4;":                                0x76543210,
	"shl.b32 %r1, %r3, 32;":                               0,
	"shr.u32 %r1, %r3, 28;":                               8,
	"shr.s32 %r1, %r3, 28;":                               0xfffffff8,
	"shr.u32 %r1, %r3, 40;":                               0,
	"shr.s32 %r1, %r3, 40;":                               0xffffffff,
	"bfe.u32 %r1, %r3, 8, 8;":                             0x43,
	"bfe.s32 %r1, %r3, 24, 8;":                            0xffffff87,
	"bfi.b32 %r1, 15, 0, 4, 8;":                           0xf0,
	"prmt.b32 %r1, %r3, 0, 0x0123;":                       0x21436587,
	"shf.l.wrap.b32 %r1, %r2, %r3, 8;":                    0x654321ff,
	"shf.r.clamp.b32 %r1, %r2, %r3, 40;":                  0x87654321,
	"cvt.s32.s16 %r1, %rs2;":                              0xfffffff6,
	"cvt.u32.u16 %r1, %rs2;":                              0xfff6,
	"cvt.u32.u64 %r1, %rd2;":                              3,
	"cvt.s32.s8 %r1, %r2;":                                0xfffffff6,
	"mov.b64 {%r4, %r1}, %rd2;":                           0xffffffff,
	"mov.b64 %rd1, {%r3, %r2};":                           0x87654321,
	"{ .reg .b32 tmp; mov.b64 {tmp, %r1}, %rd2; }":        0xffffffff,
	"setp.lt.s32 %p1, %r2, 0; selp.b32 %r1, 1, 2, %p1;":   1,
	"setp.lt.u32 %p1, %r2, 9; selp.b32 %r1, 1, 2, %p1;":   2,
	"setp.hi.u32 %p1, %r2, 9; @!%p1 ret; mov.u32 %r1, 6;": 6,
	"bra.uni $L1; mov.u32 %r1, 7;\n$L1:\nmov.u32 %r1, 8;": 8,
	"mov.u32 %r1, %ntid.x;":                               2,
	"st.volatile.shared.u8 [memory+3], %r3; ld.volatile.shared.s8 %r1, [memory+3];": 0x21,
}

// TestResults runs every instruction.
func TestResults(t *testing.T) {
	var main, c strings.Builder
	main.WriteString("#include <stdio.h>\nint main(void)\n{\n    int bad = 0;\n" +
		"    const unsigned grid[3] = {1, 1, 1}, block[3] = {2, 1, 1};\n    uint32_t out[2];\n    uint32_t *p = out;\n")
	i := 0
	for body, want := range results {
		store := "st.global.u32 [%rd18], %r1;"
		if strings.Contains(body, "%rd1,") {
			store = "st.global.u64 [%rd18], %rd1;"
		}
		module := kernelOf("ld.param.u64 %rd18, [k_param_0];\nmov.u32 %r2, -10;\nmov.u32 %r3, 0x87654321;\nmov.u64 %rd2, -4294967293;\nmov.u16 %rs2, -10;\n" +
			"mov.u64 %rd1, 0;\nmov.u32 %r1, 0;\n" + body + "\nbar.sync 0;\n" + store + "\nret;")
		text, err := ToC(module)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		i++
		name := "k" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		if i > 1 {
			text = strings.TrimPrefix(text, runtime)
		}
		c.WriteString(strings.NewReplacer("ptx_registers_k", "ptx_registers_"+name, "ptx_code_k", "ptx_code_"+name, "int ptx_k(", "int ptx_"+name+"(").Replace(text))
		main.WriteString("    out[0] = 0;\n    if (ptx_" + name + "(grid, block, 8, &p, 8) || out[0] != " + strconv.FormatUint(uint64(want), 10) + "u)\n        bad = 1, printf(\"%s: %#x\\n\", " + strconv.Quote(body) + ", out[0]);\n")
	}
	main.WriteString("    return bad;\n}\n")
	if out, err := runC(t, c.String()+main.String()).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRefusals: launches that a GPU refuses, and launches that it does not survive.
func TestRefusals(t *testing.T) {
	text, err := ToC(kernelOf("mov.u32 %r1, %tid.x;\nsetp.eq.s32 %p1, %r1, 1;\nld.param.u64 %rd1, [k_param_0];\nsetp.eq.s64 %p2, %rd1, 0;\n@%p2 bra $L2;\n" +
		"mul.wide.u32 %rd2, %r1, 4;\nst.shared.u32 [%rd2], %r1;\nret;\n$L2:\n@%p1 ret;\nbar.sync 0;\nret;"))
	testkit.Must(t, err)
	main := `int main(void)
{
    const unsigned one[3] = {1, 1, 1}, two[3] = {2, 1, 1}, none[3] = {0, 1, 1}, flat[3] = {1, 2, 1}, many[3] = {129, 1, 1};
    const unsigned long long barrier = 0, store = 1;
    int wrong = 0;
    wrong |= (ptx_k(one, two, 8, &store, 8) != 0) << 0;
    wrong |= (ptx_k(one, two, 8, &store, 4) != 1) << 1;
    wrong |= (ptx_k(none, two, 8, &store, 8) != 1) << 2;
    wrong |= (ptx_k(one, flat, 8, &store, 8) != 1 || ptx_k(one, many, 8, &store, 8) != 1) << 3;
    wrong |= (ptx_k(one, two, 49153, &store, 8) != 1) << 4;
    wrong |= (ptx_k(one, two, 7, &store, 8) != 2) << 5;
    wrong |= (ptx_k(one, two, 8, &barrier, 8) != 3 || ptx_k(one, one, 8, &barrier, 8) != 0) << 6;
    return wrong;
}
`
	if out, err := runC(t, text+main).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// accesses has kernels of two threads, and the error that each ends with: 2 for a bad place. r1 is
// the thread's number, r2 the block's. rd1 is the address of 16 bytes, rd2 that of the thread's
// word there, rd3 the offset of its word in 8 bytes of shared memory.
var accesses = []struct {
	body   string
	blocks int
	ends   int
}{
	{"st.shared.u32 [%rd3], %r1; bar.sync 0; ld.shared.u32 %r3, [memory+4];", 2, 0},
	{"ld.shared.u32 %r3, [memory]; bar.sync 0; st.shared.u32 [%rd3], %r1; bar.sync 0; ld.shared.u32 %r3, [memory];", 1, 0},
	{"st.volatile.shared.u32 [memory], %r1; ld.volatile.shared.u32 %r3, [memory];", 1, 0},
	{"ld.shared.u8 %r3, [%rd3+3];", 1, 0},
	{"ld.shared.u8 %r3, [%rd3+4];", 1, 2},
	{"ld.shared.u32 %r3, [%rd3+2];", 1, 2},
	{"st.global.u32 [%rd2], %r1; bar.sync 0; ld.global.u32 %r3, [%rd1+4];", 1, 0},
	{"ld.global.u32 %r3, [%rd1]; bar.sync 0; st.global.u32 [%rd2], %r1;", 1, 0},
	{"ld.global.u32 %r3, [%rd1];", 2, 0},
	{"st.volatile.global.u32 [%rd1], %r1;", 2, 0},
	{"st.global.u32 [%rd2+8], %r1;", 1, 0},
	{"st.global.u32 [%rd2+12], %r1;", 1, 2},
	{"ld.global.u32 %r3, [%rd1+-4];", 1, 2},
	{"ld.global.u16 %r3, [%rd1+1];", 1, 2},
	{"mov.u64 %rd4, table; ld.global.u16 %r3, [%rd4+2];", 2, 0},
	{"mov.u64 %rd4, table; ld.global.u16 %r3, [%rd4+4];", 1, 2},
	{"mov.u64 %rd4, table; st.global.u16 [%rd4], %r1;", 1, 2},
}

// TestAccesses: kernels end when they leave their memory, in either order of blocks and threads.
func TestAccesses(t *testing.T) {
	const found = `
static uint32_t words[5];
static int find(uint64_t at, uint64_t *start, uint64_t *bytes)
{
    *start = (uint64_t)(uintptr_t)words, *bytes = 16;
    return at - *start < 16;
}
int main(void)
{
    const unsigned grid[3] = {BLOCKS, 1, 1}, block[3] = {2, 1, 1};
    uint32_t *p = words;
    ptx_find = find;
    return ptx_k(grid, block, 8, &p, 8);
}
`
	for _, a := range accesses {
		t.Run(a.body, func(t *testing.T) {
			t.Parallel()
			module := kernelOf("ld.param.u64 %rd1, [k_param_0];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\n" +
				"mul.wide.u32 %rd3, %r1, 4;\nadd.s64 %rd2, %rd1, %rd3;\n" + a.body + "\nret;")
			c, err := ToC(strings.Replace(module, head, head+".global .align 2 .u16 table[2] = {1, 2};\n", 1))
			testkit.Must(t, err)
			for _, order := range []string{"", "PTX_REVERSED=1"} {
				cmd := runC(t, c+strings.Replace(found, "BLOCKS", strconv.Itoa(a.blocks), 1))
				cmd.Env = append(os.Environ(), order)
				said, _ := cmd.CombinedOutput()
				line := map[int]string{0: "", 2: "outside of all memory"}[a.ends]
				if got := cmd.ProcessState.ExitCode(); got != a.ends || !strings.Contains(string(said), line) {
					t.Errorf("%s ends with %d, not %d: %s", order, got, a.ends, said)
				}
			}
		})
	}
}

// runC compiles a program.
func runC(t *testing.T, code string) *exec.Cmd {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("SKIPPED: no C compiler: %v", err)
	}
	program := filepath.Join(t.TempDir(), "program")
	testkit.Must(t, os.WriteFile(program+".c", []byte(code), 0o600))
	args := []string{"-std=c11", "-fwrapv", "-Wall", "-Wno-unused-label", "-Wno-unused-but-set-variable",
		"-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", program + ".c", "-o", program}
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exec.Command(program)
}

//go:build cgo

package gpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/ptx"
)

// TestBarriers: without any one of its barriers, threads of the PTX race, and are found; with all
// they do not, in either order of blocks and threads.
func TestBarriers(t *testing.T) {
	c, err := ptx.ToC(PTX)
	if err != nil {
		t.Fatal(err)
	}
	// All programs in one: the environment says which barrier nobody waits at.
	n, wait := 0, regexp.MustCompile(`return \d+;\n    case`)
	c = wait.ReplaceAllStringFunc(c, func(s string) string {
		n++
		return fmt.Sprintf("if (omitted() != %d) %s", n, s)
	})
	if n != barriers(t) {
		t.Fatalf("the PTX has %d barriers, its source %d", n, barriers(t))
	}
	program := compileC(t, "#include <stdlib.h>\nstatic int omitted(void)\n{\n    static int n = -1;\n    return n < 0 ? n = atoi(getenv(\"OMITTED\")) : n;\n}\n"+c)
	for _, order := range []string{"", "PTX_REVERSED=1"} {
		if !sameAsProcessor(t, start(t, program, "RACES=1", "OMITTED=0", order)) {
			t.Fatal("with all barriers, the result is wrong", order)
		}
	}
	for i := 1; i <= n; i++ {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			h := begin(t, program, "RACES=1", "OMITTED="+strconv.Itoa(i))
			sameAsProcessor(t, h)
			h.in.Close()
			if err := h.cmd.Wait(); err == nil || !strings.Contains(h.errors.String(), "another thread uses this at the same time") {
				t.Errorf("this barrier is not needed, or no test needs it (%v): %s", err, h.errors.Bytes())
			}
		})
	}
}

// barriers counts those of the kernels' source.
func barriers(t *testing.T) (n int) {
	files, err := filepath.Glob("kernels/*.cu")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(text), "SYNC();")
	}
	return n
}

// TestRaces: without any one of its barriers, threads of the source race, and the sanitizer finds
// them.
func TestRaces(t *testing.T) {
	program, files := threaded(t), jpegs(t)
	for i := range barriers(t) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			h := begin(t, program, "OMITTED="+strconv.Itoa(i), "TSAN_OPTIONS=halt_on_error=1")
			r, j, err := rand.New(rand.NewPCG(6, 6)), newJudge(t, decode.RGB, false), error(nil)
			for n := 0; n < 100 && err == nil; n++ { // it remembers only some accesses, so it may need several batches
				b := placeBatch(t, r, 4, 3, resample.Stretch, randomFormat(r))
				if _, _, err = h.run(b.Plan, b.staging); err == nil {
					b := j.try(t, r, resample.Stretch, randomFormat(r), some(r, files, 12), randomBits(r))
					_, _, err = h.run(b.Plan, b.staging())
				}
			}
			h.in.Close()
			if err := h.cmd.Wait(); err == nil || !strings.Contains(h.errors.String(), "ThreadSanitizer: data race") {
				t.Errorf("nobody waits at this barrier, and no race was found (%v): %s", err, h.errors.Bytes())
			}
		})
	}
}

// sameAsProcessor runs a few batches, and reports whether they became what they must.
func sameAsProcessor(t *testing.T, h *host) bool {
	r := rand.New(rand.NewPCG(5, 5))
	for range 6 {
		b := placeBatch(t, r, 4, 3, randomMode(r), randomFormat(r))
		if got, _, err := h.run(b.Plan, b.staging); err != nil || !bytes.Equal(got, b.want(t)) {
			return false
		}
	}
	files, j := jpegs(t), newJudge(t, decode.RGB, false)
	for range 4 {
		if j.decodeBatch(t, []*host{h}, r, randomMode(r), randomFormat(r), some(r, files, 12), &counts{}) != nil {
			return false
		}
	}
	return true
}

//go:build cgo

package gpu

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/batchfs/batchfs/decode"
	"github.com/batchfs/batchfs/decode/resample"
	"github.com/batchfs/batchfs/internal/testkit"
)

// barriers counts those of the kernels' source.
func barriers(t *testing.T) (n int) {
	files, err := filepath.Glob("kernels/*.cu")
	testkit.Must(t, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		testkit.Must(t, err)
		n += strings.Count(string(text), "SYNC();")
	}
	return n
}

// TestRaces: without any one of its barriers, threads of the source race, and the sanitizer finds
// them.
func TestRaces(t *testing.T) {
	if n := strings.Count(PTX, "bar.sync"); n != barriers(t) {
		t.Errorf("the PTX has %d barriers, its source %d", n, barriers(t))
	}
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

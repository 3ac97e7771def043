package stress

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// TestStress is the stress program; the package's comment describes it.
func TestStress(t *testing.T) {
	p := needMounts(t)
	seed, length := max(1, *stressSeed), *stressFor
	if *stressSeed == 0 && length > time.Minute {
		seed = uint64(time.Now().Unix())
	}
	if length == 0 {
		length = 2 * time.Minute
		if testing.Short() {
			length = 20 * time.Second
		}
	}
	var sum report
	for began, n := time.Now(), 0; n == 0 || time.Since(began) < length; n++ {
		r, err := newRound(p, seed)
		if err != nil {
			t.Fatalf("round %d: %v", seed, err)
		}
		r.run()
		sum.add(r.report)
		t.Logf("round %d: %v %v", seed, r.report, r.Settings)
		if len(r.findings) > 0 {
			r.tell(t)
			break
		}
		if err := os.RemoveAll(r.Dir); err != nil {
			t.Fatal(err)
		}
		if *stressSeed == 0 {
			seed++
		}
	}
	t.Logf("in all: %v", sum)
	if sum[opened] == 0 {
		t.Error("nothing was read")
	}
}

func roundRandom(seed, part uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, part)) }

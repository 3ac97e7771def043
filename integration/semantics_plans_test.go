package integration

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// TestReadersOfManyEpochs: three readers read three epochs of one mount, as a sweep of jobs
// would. Every byte is right, and the cache is planned once per epoch, however often it is
// read.
func TestReadersOfManyEpochs(t *testing.T) {
	const side, batches, rounds = 64, 12, 3
	dataset := tiles(t, tileBatch*batches, side)
	m := tileMount(t, dataset, "--log-level", "debug", "--log-format", "json")
	for range rounds {
		var all []*partner
		for _, epoch := range []int{0, 10, 20} {
			p := m.partner(t, onwards, m.dir+"/shard-0", strconv.Itoa(side), strconv.Itoa(batches), strconv.Itoa(2*batches), strconv.Itoa(epoch*batches), "mapped")
			p.expect(t, "ready")
			all = append(all, p)
		}
		for _, p := range all {
			p.tell(t, "go")
		}
		for _, p := range all {
			p.expect(t, strconv.Itoa(2*batches)+" 0 0")
			p.end()
		}
	}
	m.awaitPlans(t)
	if plans := m.stats(t).Plans; plans.Held == 0 {
		t.Errorf("nothing was planned: %+v", plans)
	}
	planned := map[int]int{}
	eventually(t, "the plans are in the log", func() bool {
		clear(planned)
		for line := range strings.Lines(m.logged()) {
			var entry struct {
				Msg   string
				Epoch int
			}
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "planned what the cache keeps" {
				planned[entry.Epoch]++
			}
		}
		return len(planned) >= 6 // two epochs for each reader
	})
	for epoch, times := range planned {
		if times != 1 {
			t.Errorf("epoch %d was planned %d times", epoch, times)
		}
	}
}

package main

import (
	"fmt"
	"math"

	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/engine/headroom"
	"github.com/batchfs/batchfs/layout"
)

// warnOfLimit warns that a mount's memory limit exceeds the available memory.
func (c *console) warnOfLimit(r mountRequest) {
	lowest := c.machine.host().Lowest()
	if r.shares || r.engine.MemoryLimit <= lowest.Total {
		return
	}
	r.log.tell(fmt.Sprintf("--memory-limit %s is more than %s has, %s: if the mount takes more than that, the kernel ends it or another process",
		formatBytes(r.engine.MemoryLimit), lowest.Name, formatBytes(lowest.Total)),
		fmt.Sprintf("--memory-limit %dMiB, or leave it out", max(1, c.machine.defaultMemoryLimit()>>20)))
}

// checkRoom refuses a --memory-limit that holds no batch: one that leaves nothing beside what
// the mount itself takes, or less than the size that --size gives every batch. If only the
// first batch is known not to fit, or the limit was not given, it warns.
func (c *console) checkRoom(r mountRequest, e *engine.Engine) error {
	memory := e.Stats().Memory
	itself, batch := memory.Used-memory.Batches-memory.Cache, e.Catalog().Size(engine.Key{}, layout.NHWCForm)
	room := memory.Limit - itself
	if batch <= room || batch > math.MaxInt64/2 { // a batch beyond all limits is EFBIG
		return nil
	}
	const decoding = 8 << 20 // scratch memory of a few workers
	advice := fmt.Sprintf("--memory-limit %dMiB, or a smaller --batch-size or --size", (itself+batch+batch/4+decoding)>>20)
	if !r.shares && (room <= 0 || r.engine.Transform.Height > 0) {
		rule := fmt.Sprintf("enough for the mount itself (%s) and one batch (%s)", formatBytes(itself), formatBytes(batch))
		return hint(badValue("memory-limit", rule, formatBytes(memory.Limit)), "%s", advice)
	}
	r.log.tell("the memory limit, "+formatBytes(memory.Limit)+", leaves no room for the first batch, "+formatBytes(batch)+": opening it will fail", advice)
	return nil
}

// watchMemory keeps a mount within the available memory until stop is called.
func (c *console) watchMemory(r mountRequest, e *engine.Engine) (stop func()) {
	w := headroom.Watch{Host: c.machine.host(), SetLimit: e.SetMemoryLimit, Limit: r.engine.MemoryLimit, Shared: r.shares, Logger: r.engine.Logger}
	w.Used = func() int64 {
		_, _, used := e.Usage()
		return used
	}
	return w.Start()
}

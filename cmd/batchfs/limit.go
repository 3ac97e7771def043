package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/headroom"
)

// warnOfLimit says that more memory was allowed to a mount than there is.
func (c *console) warnOfLimit(r mountRequest) {
	lowest := c.machine.host().Lowest()
	if r.shares || r.engine.MemoryLimit <= lowest.Total {
		return
	}
	c.tell(r)(fmt.Sprintf("--memory-limit %s is more than %s has, %s: what the mount takes beyond that ends it, or another process",
		formatBytes(r.engine.MemoryLimit), lowest.Name, formatBytes(lowest.Total)),
		fmt.Sprintf("--memory-limit %dMiB, or none", max(1, c.machine.defaultMemoryLimit()>>20)))
}

// tenant is an engine as a watch of the memory sees it.
type tenant struct{ *engine.Engine }

func (t tenant) MemoryUsed() int64 {
	_, _, used := t.Usage()
	return used
}

// watchMemory keeps a mount within the memory that there is, until the function it
// returns is called.
func (c *console) watchMemory(r mountRequest, e *engine.Engine) (stop func()) {
	host, done := c.machine.host(), make(chan struct{})
	var signals <-chan struct{}
	pressure, err := host.WatchPressure("/")
	if err == nil {
		signals = pressure.C
	} else {
		r.engine.Logger.Debug("memory is looked at once a second only", "reason", err)
	}
	w := headroom.Watch{Host: host, Tenant: tenant{e}, Limit: r.engine.MemoryLimit, Shared: r.shares, Logger: r.engine.Logger}
	var running sync.WaitGroup
	running.Go(func() {
		ticks := time.NewTicker(headroom.Interval)
		defer ticks.Stop()
		w.Run(done, ticks.C, signals)
	})
	return sync.OnceFunc(func() {
		close(done)
		running.Wait()
		if pressure != nil {
			_ = pressure.Close() // it was only read
		}
	})
}

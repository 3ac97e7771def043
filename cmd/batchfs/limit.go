package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/batchfs/batchfs/engine"
	"github.com/batchfs/batchfs/engine/headroom"
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

// tenant adapts an engine to headroom.Watch.
type tenant struct{ *engine.Engine }

func (t tenant) MemoryUsed() int64 {
	_, _, used := t.Usage()
	return used
}

// watchMemory keeps a mount within the available memory until stop is called.
func (c *console) watchMemory(r mountRequest, e *engine.Engine) (stop func()) {
	host, done := c.machine.host(), make(chan struct{})
	var signals <-chan struct{}
	pressure, err := host.WatchPressure("/")
	if err == nil {
		signals = pressure.C
	} else {
		r.engine.Logger.Debug("memory is checked only once a second", "reason", err)
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
			_ = pressure.Close() // opened for reading only
		}
	})
}

package engine

import (
	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/dataset/sample"
	"github.com/batchfs/batchfs/shard/keep"
	"github.com/batchfs/batchfs/tier"
)

// A plan is what is kept of an epoch for the next one, in memory and in the local cache. No sample is in both.
type plan struct{ memory, disk *keep.Choice } // nil: nothing

// shares are how much of what an epoch reads each of them may keep.
type shares struct{ memory, disk float64 }

// local says whether there is a plan for the local cache.
func (s shares) local() bool { return s.disk > 0 }

// cached says whether there is one for the memory.
func (s shares) cached() bool { return s.memory > 0 || !s.local() }

func (s shares) choices() (n int64) {
	for _, made := range []bool{s.cached(), s.local()} {
		if made {
			n++
		}
	}
	return n
}

// choose makes the plan of an epoch.
func (s shares) choose(c *Catalog, epoch int, w keep.Workspace) (p *plan, err error) {
	p = &plan{}
	if s.cached() {
		if p.memory, err = keep.Choose(c.Plan, epoch, c.Options.keepConfig(s.memory), w); err != nil {
			return nil, err
		}
	}
	if s.local() {
		config := c.Options.keepConfig(s.disk)
		config.Except = p.memory
		if p.disk, err = keep.Choose(c.Plan, epoch, config, w); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// needs is about the most memory that choose takes.
func (s shares) needs(c *Catalog) int64 {
	config := c.Options.keepConfig(1)
	if s.cached() && s.local() {
		config.Except = &keep.Choice{}
	}
	return keep.Needs(c.Plan, config)
}

// localShare is how much of what an epoch reads the local cache can keep beside the memory, which has a share of it;
// 0 if it does not follow a plan.
func (c *Catalog) localShare(memory float64) float64 {
	o := &c.Options
	if !c.Dataset.KeepsSamples() {
		return 0
	}
	cost := func(id int64) (int64, bool) {
		return tier.Cost(c.encodedSize(int(id))), sample.IsRaw(c.Dataset, int(id)) && o.Shuffle
	}
	r := cache.Share(c.Dataset.LocalCache().Limit, o.Samples, o.readHere(), cost, o.InFlight())
	if r >= 1-memory {
		return 1 // all that is left
	}
	return r
}

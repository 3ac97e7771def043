package engine

import (
	"crypto/rand"
	"fmt"

	"github.com/batchfs/batchfs/cache"
	"github.com/batchfs/batchfs/internal/keep"
	"github.com/batchfs/batchfs/internal/sample"
	"github.com/batchfs/batchfs/internal/tier"
)

// A plan says what is kept of an epoch for the next one, in memory and in the local cache. No
// sample is in both.
type plan struct {
	memory, disk *keep.Choice // nil: nothing
	mix          mix          // how many samples in memory are packed
}

// shares say how much of what an epoch reads memory and the disk may each keep.
type shares struct {
	memory, disk float64
	forms        *forms // decide on the share of memory from plan to plan; nil: it stays as it is
	room         int64  // bytes on the disk for its share
	files        bool   // some samples are files of this machine, which the disk does not keep
}

// local says whether there is a plan for the local cache.
func (s shares) local() bool { return s.disk > 0 }

// cached says whether there is a plan for memory.
func (s shares) cached() bool { return s.memory > 0 || !s.local() }

func (s shares) choices() (n int64) {
	for _, made := range []bool{s.cached(), s.local()} {
		if made {
			n++
		}
	}
	return n
}

// bytes is the memory that a plan takes.
func (s shares) bytes(c Budget) int64 {
	n := s.choices()
	if s.forms != nil { // it also says which samples are packed
		n++
	}
	return n * keep.Size(c.Plan)
}

// atPresent returns the shares with the room that the disk has now: other mounts come and go.
func (s shares) atPresent(c Budget) shares {
	if s.local() {
		if now := c.Dataset.LocalSamples().Room(); now != s.room {
			s.setDisk(c, now)
		}
	}
	return s
}

// choose makes the plan of an epoch. before is what the plan of the epoch before keeps in memory,
// if that is known.
func (s shares) choose(c Budget, epoch int, before *keep.Choice, w keep.Workspace) (p *plan, err error) {
	p = &plan{}
	if s.cached() {
		if s.forms != nil {
			p.mix, s.memory = s.forms.choose(s.disk)
		}
		config := c.Options.keepConfig(s.memory)
		if config.PackedShare = p.mix.packed; before.Packed() > 0 {
			config.Packed = before.Packs
		}
		if p.memory, err = keep.Choose(c.Plan, epoch, config, w); err != nil {
			return nil, err
		}
	}
	if s.local() {
		config := c.Options.keepConfig(s.disk)
		config.Except = s.except(c, p.memory, before)
		if p.disk, err = keep.Choose(c.Plan, epoch, config, w); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// except returns a test for samples that the local cache never keeps: those in memory, those that
// leave memory packed, and files of this machine. nil: any may be kept.
func (s shares) except(c Budget, memory, before *keep.Choice) func(id int64) bool {
	if !s.files && !s.cached() {
		return nil
	}
	return func(id int64) bool {
		return memory.Kept(id) || before.Packs(id) || s.files && !c.Dataset.InStore(int(id))
	}
}

// needs is approximately the most memory that choose takes.
func (s shares) needs(c Budget) int64 {
	config, none := c.Options.keepConfig(1), (*keep.Choice)(nil)
	if s.local() {
		config.Except = s.except(c, nil, nil)
	}
	if s.forms != nil {
		config.Packed = none.Packs
	}
	return keep.Needs(c.Plan, config)
}

// addLocal adds what the local cache can keep beside the memory, if it follows a plan.
func (s *shares) addLocal(c Budget) {
	if c.Dataset.LocalSamples() == nil {
		return
	}
	o, all := c.Options, 0.0
	for id := range o.Samples {
		cost, _ := c.localCost(id)
		s.files = s.files || cost < 0
		all += float64(max(cost, 0))
	}
	order := c.Plan.Config()
	order.Blocks, order.Costs = nil, nil // these follow from the dataset
	plan := fmt.Sprintf("%+v, shards %d to %d, %v in memory", order, o.LocalFrom, o.LocalTo, s.memory)
	if s.forms != nil {
		if s.forms.learn(); s.forms.packable > 0 {
			plan += ", " + rand.Text() // packing depends on measurements, and changes what the disk keeps: no two mounts plan the same
		}
	}
	if err := c.Dataset.LocalSamples().Plan(plan, int64(all*o.readHere())); err != nil {
		o.Logger.Warn("other mounts leave no room in the local cache for this one", "reason", err)
	}
	s.setDisk(c, c.Dataset.LocalSamples().Room())
}

// setDisk finds out which share the room on the disk is enough for.
func (s *shares) setDisk(c Budget, room int64) {
	o := c.Options
	s.room, s.disk = room, cache.CostsOf(o.Samples, c.localCost).Share(room, o.readHere(), o.InFlight())
	if s.disk >= 1-s.memory {
		s.disk = 1 // all the samples that are left
	}
}

// localCost is how much of the local cache a sample takes, below 0 if it is a file of this machine,
// and its kind.
func (c Budget) localCost(id int64) (cost int64, kind int) {
	if !c.Dataset.InStore(int(id)) {
		return -1, 0
	}
	return tier.Cost(c.encodedSize(int(id))), c.Options.Kind(sample.CostOf(c.Dataset, int(id)))
}

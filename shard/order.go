package shard

// OrderVersion names the construction in the package comment. It must change with every change that
// moves a sample, and with nothing else. The other names become part of Plan.Version where they
// apply. Version 1 of windows and placement ignored that samples have several costs.
const (
	OrderVersion  = "xor-feistel-8/1"
	windowed      = "+window/1"
	mixedWindowed = "+window/2"
	placed        = "+local/1"
	mixedPlaced   = "+local/2"
)

// Version names everything except the Config that decides which samples are in a batch.
func (p *Plan) Version() string {
	version, window, place := OrderVersion, windowed, placed
	if p.costs != nil {
		window, place = mixedWindowed, mixedPlaced
	}
	if p.windows != nil {
		version += window
	}
	if p.cfg.Partition == Local {
		version += place
	}
	return version
}

// order is the order of one epoch, with its keys derived.
type order struct {
	samples uint64
	shuffle bool
	costs   *Costs // nil: one cost
	window  window // the latest one, if the shuffle has windows
	blend   blend  // of the window, or of all samples
}

// Tags, which are part of a permutation's key and say what is permuted.
const (
	tagAll    = 0
	tagBlocks = 3
	tagWindow = 4 // of the first window; later windows have the next numbers
)

// costTags are added to tagAll, or to a window's tag, for the samples of one cost.
type costTags struct{ all, window uint64 }

// tags returns the tags of a cost, 0 if there is only one cost.
func (c *Costs) tags(cost Cost) costTags {
	if c == nil {
		return costTags{}
	}
	return [NumCosts]costTags{Encoded: {2, 2 << 56}, Packed: {4 << 56, 4 << 56}, Raw: {1, 1 << 56}}[cost]
}

func (p *Plan) order(epoch int) order {
	o := order{samples: uint64(p.samples), shuffle: p.cfg.Shuffle, costs: p.costs}
	switch {
	case !o.shuffle:
	case p.windows != nil:
		o.window.blockOrder = p.windows.in(epoch)
	default:
		o.blend = newBlend(p.costs.before(p.samples), func(cost Cost, n uint64) permutation {
			return newPermutation(n, p.cfg.Seed, uint64(epoch), tagAll+p.costs.tags(cost).all)
		})
	}
	return o
}

// id is the sample at a position; -1 if there is no such position.
func (o *order) id(position int64) int64 {
	switch {
	case uint64(position) >= o.samples:
		return -1
	case !o.shuffle:
		return position
	case o.window.blockOrder == nil:
		cost, rank := o.blend.at(uint64(position))
		return o.costs.find(int64(rank), cost)
	case position < o.window.lo || position >= o.window.hi:
		o.blend = o.window.enter(position)
	}
	return o.window.find(o.blend.at(uint64(position - o.window.lo)))
}

// ID is the sample at a position of an epoch; -1 if there is none.
func (p *Plan) ID(epoch int, position int64) int64 {
	if epoch < 0 {
		return -1
	}
	o := p.order(epoch)
	return o.id(position)
}

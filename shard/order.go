package shard

// OrderVersion names the construction in the package comment. It must change with every change
// that moves a sample, and with nothing else. The other two are part of Plan.Version if they
// matter.
const (
	OrderVersion = "xor-feistel-8/1"
	windowed     = "+window/1"
	placed       = "+local/1"
)

// Version names everything that decides which samples are in a batch, beside the Config.
func (p *Plan) Version() string {
	version := OrderVersion
	if p.windows != nil {
		version += windowed
	}
	if p.cfg.Partition == Local {
		version += placed
	}
	return version
}

// order is the order of one epoch, with its keys derived.
type order struct {
	samples uint64
	shuffle bool
	raw     *RawSet // nil: one class
	spread  spread
	all     permutation // of all samples; with two classes, of the encoded samples
	rawOnly permutation
	window  window // of a shuffle that has them
	windows bool
}

// What is permuted, as part of a permutation's key.
const (
	tagAll     = 0
	tagRaw     = 1
	tagEncoded = 2
	tagBlocks  = 3
	tagWindow  = 4 // the first window's; the others have the next ones
)

func (p *Plan) order(epoch int) order {
	o := order{samples: uint64(p.samples), shuffle: p.cfg.Shuffle}
	seed, e := p.cfg.Seed, uint64(epoch)
	switch {
	case !o.shuffle:
	case p.windows != nil:
		o.windows, o.window = true, window{blockOrder: p.windows.in(epoch)}
	case p.mixed:
		raw := uint64(p.cfg.Raw.Count())
		o.raw = p.cfg.Raw
		o.spread = spread{chosen: raw, of: o.samples}
		o.rawOnly = newPermutation(raw, seed, e, tagRaw)
		o.all = newPermutation(o.samples-raw, seed, e, tagEncoded)
	default:
		o.all = newPermutation(o.samples, seed, e, tagAll)
	}
	return o
}

// id is the sample at a position; -1 if there is no such position.
func (o *order) id(position int64) int64 {
	p := uint64(position)
	switch {
	case p >= o.samples:
		return -1
	case !o.shuffle:
		return position
	case o.windows:
		return o.window.id(position)
	case o.raw == nil:
		return int64(o.all.at(p))
	}
	isRaw, rank := o.spread.at(p)
	if isRaw {
		return o.raw.find(int64(o.rawOnly.at(rank)), raw)
	}
	return o.raw.find(int64(o.all.at(rank)), encoded)
}

// ID is the sample at a position of an epoch; -1 if there is none.
func (p *Plan) ID(epoch int, position int64) int64 {
	if epoch < 0 {
		return -1
	}
	o := p.order(epoch)
	return o.id(position)
}
